"""A run that was broken off goes on, and ends with what an undisturbed run gives, array for array."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from cluster_store import dataset_status
from finder import FinderParameters, Pedestal
from pipeline import BatchError, OutputError, ResumeError, RunError, RunOptions, execute, prepare
from pipeline.resuming.journal import journal_folder

# Chunks of the dataset so small that a batch writes several, and shares some with its neighbours.
ROWS_PER_CHUNK = 64
# What tells one run from another, and says nothing of the result.
OF_THE_RUN = {"history", "run_id", "runs", "throughput"}
# Who did a batch, how long it took, and when its files were last written to.
OF_THE_TIME = {
    "worker", "began", "found", "written", "read_seconds", "decode_seconds", "find_seconds", "write_seconds",
    "minor_faults", "write_minor_faults", "idle_seconds", "files_stamp",
}  # fmt: skip


def start(archive, client, rows_per_chunk=ROWS_PER_CHUNK, on_progress=None, **options):
    prepared = prepare(RunOptions(archive.path, batch_size=10, **options))
    prepared = replace(prepared, layout=replace(prepared.layout, rows_per_chunk=rows_per_chunk))
    return execute(prepared, client, on_progress=on_progress)


class BrokenOffError(Exception):
    """What breaks a run off."""


def break_off(archive, client, after, **options):
    """Begin a run and break it off when so many batches have been found."""

    def stop(progress):
        if progress.batches == after:
            raise BrokenOffError

    with pytest.raises(BrokenOffError):
        start(archive, client, on_progress=stop, **options)
    assert dataset_status(archive.out) == "running"


def contents(out):
    """All arrays of a dataset, with the groups' and without what differs from run to run."""
    clusters = xr.open_zarr(out).load()
    attrs = {name: value for name, value in clusters.attrs.items() if name not in OF_THE_RUN}
    batches = xr.open_zarr(out, group="batches", decode_times=False).load().drop_vars(OF_THE_TIME)
    pedestal = xr.open_zarr(out, group="pedestal").load()
    clusters.attrs = attrs
    # The names of the workers.
    batches.attrs = {}
    return clusters, batches, pedestal


def undisturbed(archive, client, tmp_path, **options):
    """What a run gives that nothing happens to."""
    out = str(tmp_path / "undisturbed.zarr")
    start(archive, client, out=out, overwrite=True, **options)
    return contents(out)


def assert_same(found, expected):
    for group, other in zip(found, expected, strict=True):
        xr.testing.assert_identical(group, other)


@pytest.mark.parametrize("after", [1, 4, 9])
def test_a_run_that_was_broken_off_goes_on_to_the_same_dataset(client, make_archive, tmp_path, after):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    break_off(archive, client, after)
    result = start(archive, client, resume=True)
    assert_same(contents(archive.out), expected)
    assert result.summary.frames + result.summary.frames_kept == 97
    assert not journal_folder(archive.out).exists()
    assert not Path(f"{archive.out}.lock").exists()


def test_chunks_that_were_lost_are_found_again_and_no_others(client, make_archive, tmp_path):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    break_off(archive, client, 8)
    (Path(archive.out) / "signal" / "c" / "1" / "0" / "0").unlink()
    (Path(archive.out) / "frame_status" / "c" / "5").unlink()
    result = start(archive, client, resume=True)
    assert_same(contents(archive.out), expected)
    assert 20 < result.summary.frames < 97


@pytest.mark.parametrize("gone", ["one in the middle", "the last"])
def test_a_complete_dataset_is_left_as_it_is_and_mended_where_a_chunk_is_gone(client, make_archive, tmp_path, gone):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    journal, kept = journal_folder(archive.out), tmp_path / "kept"
    start(archive, client, on_progress=lambda _: shutil.copytree(journal, kept, dirs_exist_ok=True))
    shutil.copytree(kept, journal)  # as if the run had been killed before it removed it
    before = (Path(archive.out) / "zarr.json").read_bytes()
    assert start(archive, client, resume=True).was_complete
    assert (Path(archive.out) / "zarr.json").read_bytes() == before
    assert not journal.exists()
    chunks = sorted((Path(archive.out) / "x" / "c").iterdir(), key=lambda chunk: int(chunk.name))
    (chunks[-1] if gone == "the last" else chunks[2]).unlink()
    assert not start(archive, client, resume=True).was_complete
    assert_same(contents(archive.out), expected)


def test_a_complete_dataset_is_not_taken_for_one_of_other_frames(client, make_archive):
    archive = make_archive()
    start(archive, client)
    assert start(archive, client, resume=True).was_complete
    chunk = Path(archive.path) / "frames" / "c" / "0" / "0" / "0"
    content = chunk.read_bytes()
    os.utime(chunk, ns=(1, 1))
    with pytest.raises(ResumeError, match=r"batch 0 .* have other sizes or times than when they were read"):
        start(archive, client, resume=True)
    assert chunk.read_bytes() == content
    assert dataset_status(archive.out) == "complete"


def test_a_torn_line_of_the_journal_costs_its_batch_and_nothing_else(client, make_archive, tmp_path):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    break_off(archive, client, 6)
    lines = journal_folder(archive.out) / "batches.log"
    lines.write_bytes(lines.read_bytes()[:-20])
    start(archive, client, resume=True)
    assert_same(contents(archive.out), expected)


@pytest.mark.parametrize("created", [True, False])
def test_with_nothing_found_yet_or_not_even_a_dataset_it_begins_anew(client, make_archive, created):
    archive = make_archive(n_frames=30)
    if created:
        break_off(archive, client, 1)
        journal = journal_folder(archive.out)
        (journal / "run.json").write_text(
            (journal / "run.json").read_text().replace('"created": true', '"created": false')
        )
    start(archive, client, resume=True)
    expected = archive.reference(10)
    np.testing.assert_array_equal(contents(archive.out)[0].n_clusters, expected["n_clusters"])


def test_what_has_changed_is_named_and_nothing_is_touched(client, make_archive):
    archive = make_archive()
    break_off(archive, client, 3)
    # A task that was at work when the run was broken off goes on to its end, and writes what it has in hand.
    while any(client.run(lambda dask_worker: len(dask_worker.state.all_running_tasks)).values()):
        pass
    before = {path: path.stat().st_mtime_ns for path in Path(archive.out).rglob("*")}
    for options, named in (
        ({"parameters": FinderParameters(n_sigma=6)}, "n_sigma was 5.0 and now is 6"),
        ({"frames": (0, 50)}, "frames was 0:97 and now is 0:50"),
        ({"mask": np.eye(20, 30, dtype=bool)}, "the pixel mask is another"),
        ({"tracking": "chain"}, "tracking was batch and now is chain"),
        ({"pedestal": Pedestal.from_dark(archive.dark + 1)}, "the pedestal is another"),
    ):
        with pytest.raises(ResumeError, match=f"{named}.*--overwrite"):
            start(archive, client, resume=True, **options)
    chunk = Path(archive.path) / "frames" / "c" / "0" / "0" / "0"
    chunk.touch()
    with pytest.raises(ResumeError, match=r"batch [01] \(frames .*other sizes or times"):
        start(archive, client, resume=True)
    assert {path: path.stat().st_mtime_ns for path in Path(archive.out).rglob("*")} == before


def break_chunk(archive, number):
    """Break a chunk of 20 frames, two batches; returns its path and what was in it."""
    chunk = Path(archive.path) / "frames" / "c" / str(number) / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:-9])
    return chunk, content


@pytest.mark.parametrize("tracking", ["batch", "chain"])
class TestSkipping:
    """``--on-bad-batch skip``, and what becomes of the skipped batches."""

    def test_skipped_frames_are_marked_and_the_rest_is_as_it_would_be_without_them(
        self, client, make_archive, tracking
    ):
        archive = make_archive()
        break_chunk(archive, 2)
        result = start(archive, client, on_bad_batch="skip", tracking=tracking)
        assert [count.batch.index for count in result.skipped] == [4, 5]
        assert "c/2/0/0" in result.skipped[0].cause
        assert result.summary.frames_lost == 20
        clusters, batches, _ = contents(archive.out)
        np.testing.assert_array_equal(np.flatnonzero(clusters.frame_status), np.arange(40, 60))
        assert set(clusters.frame_status.values[40:60]) == {1}
        np.testing.assert_array_equal(clusters.frame_number, np.arange(97))
        assert batches.status.values.tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
        expected = archive.reference(10) if tracking == "batch" else archive.chained(without=range(40, 60))
        kept = np.ones(97, bool)
        kept[40:60] = False
        np.testing.assert_array_equal(clusters.n_clusters, np.where(kept, expected["n_clusters"], 0))
        rows = kept[expected["frame_index"]]
        np.testing.assert_array_equal(clusters.frame_index, expected["frame_index"][rows])
        np.testing.assert_array_equal(clusters.x, expected["x"][rows])

    def test_a_repaired_file_brings_its_frames_back_and_moves_what_follows(
        self, client, make_archive, tmp_path, tracking
    ):
        archive = make_archive()
        expected = undisturbed(archive, client, tmp_path, tracking=tracking)
        chunk, content = break_chunk(archive, 2)
        start(archive, client, on_bad_batch="skip", tracking=tracking)
        # Still broken: tried in vain, and the dataset is complete all the same.
        again = start(archive, client, resume=True, on_bad_batch="skip", tracking=tracking)
        assert ([count.batch.index for count in again.skipped], again.summary.frames) == ([4, 5], 0)
        assert dataset_status(archive.out) == "complete"
        chunk.write_bytes(content)
        result = start(archive, client, resume=True, tracking=tracking)
        assert (result.skipped, result.summary.frames_lost) == ((), 0)
        assert_same(contents(archive.out), expected)
        assert not journal_folder(archive.out).exists()


def test_a_chain_is_what_one_finder_gives_that_takes_all_frames_in_order(client, make_archive):
    archive = make_archive()
    start(archive, client, tracking="chain")
    clusters = contents(archive.out)[0]
    expected = archive.reference(97)
    np.testing.assert_array_equal(clusters.n_clusters, expected["n_clusters"])
    for name in ("frame_index", "y", "x"):
        np.testing.assert_array_equal(clusters[name], expected[name])
    assert clusters.attrs["tracking"] == "chain"


@pytest.mark.parametrize("lost", ["nothing", "states", "a chunk"])
def test_a_chain_that_was_broken_off_goes_on_from_where_it_was(client, make_archive, tmp_path, lost):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path, tracking="chain")
    break_off(archive, client, 7, tracking="chain")
    states = sorted(path.name for path in journal_folder(archive.out).glob("state-*"))
    assert 0 < len(states) < 7
    if lost == "states":
        for state in states:
            (journal_folder(archive.out) / state).unlink()
    if lost == "a chunk":
        (Path(archive.out) / "signal" / "c" / "1" / "0" / "0").unlink()
    result = start(archive, client, resume=True, tracking="chain")
    assert_same(contents(archive.out), expected)
    assert (result.summary.frames == 97) == (lost == "states")


def test_a_failing_batch_ends_the_run_and_the_rest_is_found_when_it_is_repaired(client, make_archive, tmp_path):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    chunk, content = break_chunk(archive, 3)
    with pytest.raises(BatchError, match=r"batch [67] .*c/3/0/0.*; go on with: process\(\.\.\., resume=True\)"):
        start(archive, client)
    chunk.write_bytes(content)
    start(archive, client, resume=True)
    assert_same(contents(archive.out), expected)


def test_a_disk_that_takes_no_more_ends_the_run_even_when_bad_batches_are_skipped(client, make_archive, tmp_path):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)

    def shut(progress):
        if progress.batches == 3:
            client.run(limit_file_size, 0)

    try:
        with pytest.raises(OutputError, match=r"File too large.*resume=True"):
            start(archive, client, on_bad_batch="skip", on_progress=shut)
    finally:
        client.run(limit_file_size, -1)
    start(archive, client, resume=True)
    assert_same(contents(archive.out), expected)


def test_an_output_folder_that_goes_away_ends_the_run_in_a_sentence(client, make_archive, tmp_path):
    archive = make_archive()
    expected = undisturbed(archive, client, tmp_path)
    disk, gone = tmp_path / "disk", tmp_path / "gone"
    disk.mkdir()

    def unplug(progress):
        if progress.batches == 3:
            disk.rename(gone)

    with pytest.raises(RunError, match=r"^[^\n]*c.zarr [^\n]*; once [^\n]*c.zarr can be reached again, [^\n]*$"):
        start(archive, client, out=str(disk / "c.zarr"), on_bad_batch="skip", on_progress=unplug)
    shutil.rmtree(disk, ignore_errors=True)
    gone.rename(disk)
    start(archive, client, out=str(disk / "c.zarr"), resume=True)
    assert_same(contents(disk / "c.zarr"), expected)


def limit_file_size(limit):
    """Let this process write no file larger than so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
