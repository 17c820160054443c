"""What is left to be done of a run, told from its journal and the chunks that are there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cluster_store import FrameStatus
from finder.offset import Offset
from pipeline.batches.plan import BatchPlan, rows_written
from pipeline.batches.reports import BatchCount
from pipeline.resuming.journal import RunHeader, RunJournal, journal_folder, read_counts, read_header, remove_journal
from pipeline.resuming.remaining import remaining


def count_of(plan, k, n_clusters, status=FrameStatus.OK):
    return BatchCount(
        batch=plan[k], n_clusters=n_clusters, nbytes=9, worker="tcp 0", began=0.1 + k, ended=1.5, read_seconds=0.25,
        decode_seconds=math.nan, read_bytes=7, stored_bytes=3, find_seconds=1e-9, minor_faults=2, movement=-0.125,
        offset=Offset(0.1, math.inf), digest=f"{k:032x}", status=status, cause='"schön"\n' * (status > 0), stamp="s",
    )  # fmt: skip


@pytest.fixture
def plan():
    return BatchPlan(3, 103, 10)


class TestRemaining:
    """Chunks of ten rows; batches of 4, 0, 9, 25, 1, 1, 0, 12, 3, 5 rows: 60 in six chunks."""

    N_CLUSTERS = (4, 0, 9, 25, 1, 1, 0, 12, 3, 5)

    def left(self, plan, known, rows, frames=range(10)):
        counts = {k: count_of(plan, k, self.N_CLUSTERS[k]) for k in known}
        left = remaining(plan, counts, 10, set(rows), set(frames))
        assert sorted([*left.kept, *left.to_find]) == list(range(10))
        return list(left.to_find), left.n_chunks

    def test_with_everything_there_nothing_is_left(self, plan):
        assert self.left(plan, range(10), range(6)) == ([], 6)

    def test_all_that_share_a_missing_chunk_are_found_again(self, plan):
        assert self.left(plan, range(10), {0, 2, 3, 4, 5}) == ([2, 3], 6)
        assert self.left(plan, range(10), {0, 1, 2, 4, 5}) == ([3, 4, 5], 6)
        assert self.left(plan, range(10), {0, 1, 2, 3, 4}) == ([7, 8, 9], 6)

    def test_rows_are_known_up_to_the_first_batch_that_is_not(self, plan):
        # Of the five batches known, the last chunk was not yet full, whatever lies in its place.
        assert self.left(plan, [0, 1, 2, 3, 4, 6, 8], range(6)) == ([3, 4, 5, 6, 7, 8, 9], 3)

    def test_a_missing_chunk_of_frames_is_its_batch(self, plan):
        assert self.left(plan, range(10), range(6), frames={0, 2, 3, 4, 5, 6, 7, 8, 9}) == ([1], 6)

    def test_with_nothing_known_everything_is_left(self, plan):
        assert self.left(plan, [], range(6)) == (list(range(10)), 0)
        assert self.left(plan, [1, 2], range(6)) == (list(range(10)), 0)

    @pytest.mark.parametrize("seed", range(20))
    def test_it_agrees_with_going_through_all_rows(self, plan, seed):
        rng = np.random.default_rng(seed)
        n = rng.integers(0, 30, 10) * rng.integers(0, 2, 10)
        rows_per_chunk = int(rng.integers(1, 40))
        n_known = int(rng.integers(0, 11))
        rows = {c for c in range(400) if rng.random() < 0.8}
        frames = {k for k in range(10) if rng.random() < 0.9}
        counts = {k: count_of(plan, k, int(n[k])) for k in range(n_known)}
        left = remaining(plan, counts, rows_per_chunk, rows, frames)
        starts = np.concatenate([[0], np.cumsum(n)])
        full = math.inf if n_known == 10 else int(starts[n_known]) // rows_per_chunk
        done = {
            k
            for k in range(n_known)
            if k in frames
            and all(c in rows and c < full for c in {r // rows_per_chunk for r in range(starts[k], starts[k + 1])})
        }
        assert set(left.kept) == done


def test_the_rows_written_are_counted_with_the_batch_that_begins_their_chunk():
    assert rows_written([4, 0, 9, 25, 1, 1, 0, 12, 3, 5], 10) == [10, 0, 10, 20, 0, 0, 0, 20, 0, 0]
    assert sum(rows_written([4, 0, 9, 25, 1, 1, 0, 12, 3, 5], 10)) == 60
    assert rows_written([10, 10], 10) == [10, 10]
    assert rows_written([0, 3], 10) == [0, 3]


class TestJournal:
    """What is written is read back; what is torn is left out."""

    def test_every_value_comes_back_to_the_last_bit(self, tmp_path, plan):
        out = str(tmp_path / "a b.zarr")
        header = RunHeader(("first",), {"n_sigma": 5.0, "cluster_size": [3, 3]}, replaces="older")
        journal = RunJournal.begin(out, header)
        counts = [count_of(plan, 0, 5), count_of(plan, 9, 0, FrameStatus.UNREADABLE)]
        for count in counts:
            journal.append(count)
        journal.mark_created()
        journal.close()
        found = read_counts(out, plan)
        assert repr(found) == repr({0: counts[0], 9: counts[1]})
        assert read_header(out) == RunHeader(("first",), header.made_from, "older", created=True)

    @pytest.mark.parametrize("cut", [1, 5, 60, 400])
    def test_a_torn_end_costs_the_lines_that_it_cuts(self, tmp_path, plan, cut):
        out = str(tmp_path / "a.zarr")
        RunJournal.begin(out, RunHeader(("r",), {}), [count_of(plan, k, k) for k in range(5)])
        path = journal_folder(out) / "batches.log"
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        n_whole = whole[:-cut].count(b"\n") - 1 + (cut == 1)
        assert list(read_counts(out, plan)) == list(range(n_whole))

    def test_a_flipped_bit_costs_its_line(self, tmp_path, plan):
        out = str(tmp_path / "a.zarr")
        RunJournal.begin(out, RunHeader(("r",), {}), [count_of(plan, k, k) for k in range(5)])
        path = journal_folder(out) / "batches.log"
        lines = path.read_bytes().split(b"\n")
        lines[3] = lines[3][:30] + bytes([lines[3][30] ^ 1]) + lines[3][31:]
        path.write_bytes(b"\n".join(lines))
        assert list(read_counts(out, plan)) == [0, 1, 3, 4]

    def test_a_later_line_of_a_batch_holds(self, tmp_path, plan):
        out = str(tmp_path / "a.zarr")
        journal = RunJournal.begin(out, RunHeader(("r",), {}), [count_of(plan, 2, 1)])
        journal.append(count_of(plan, 2, 8))
        journal.close()
        assert read_counts(out, plan)[2].n_clusters == 8

    def test_only_what_is_ours_is_removed(self, tmp_path, plan):
        out = str(tmp_path / "a.zarr")
        RunJournal.begin(out, RunHeader(("r",), {}))
        note = journal_folder(out) / "notes.txt"
        note.write_text("mine")
        remove_journal(out)
        assert note.read_text() == "mine"
        assert read_header(out) is None
        note.unlink()
        remove_journal(out)
        remove_journal(out)
        assert not journal_folder(out).exists()
