"""A simulated archive is the same, byte for byte, on any number of workers."""

import subprocess
import sys
from pathlib import Path

import pytest

from frame_archive import ArchiveError
from frame_archive.simulation import SimulatedDetector
from pipeline import ClusterConfig, open_cluster
from pipeline.simulation import simulate_archive

DETECTOR = SimulatedDetector(shape=(24, 31), photons_per_frame=9, seed=8, drift=1.0)


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_the_archive_is_the_same_byte_for_byte_on_one_worker_on_two_and_on_threads(tmp_path, client):
    def simulated(on, name):
        archive = simulate_archive(tmp_path / name, DETECTOR, 430, 110, client=on)
        assert archive.missing_chunks(0, 430) == []
        return tree(tmp_path / name)

    trees = [simulated(client, "two.zarr")]
    for threads in (1, 2):
        with open_cluster(ClusterConfig(workers=1, threads=threads)) as other:
            trees.append(simulated(other, f"one with {threads}.zarr"))
    assert len(trees[0]) == 22 + 6 + 4 * 5 + 4 + 12
    assert trees[0] == trees[1] == trees[2]


def test_progress_counts_frames_and_darks_to_the_end(tmp_path, client):
    steps, progress = [], []
    simulate_archive(
        tmp_path / "a.zarr",
        DETECTOR,
        250,
        30,
        client=client,
        on_step=steps.append,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert steps == ["simulating 250 frames and 30 darks"]
    assert progress[0] == (0, 280)
    assert progress[-1] == (280, 280)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_without_a_client_workers_are_started_and_ended(tmp_path):
    steps = []
    archive = simulate_archive(tmp_path / "a.zarr", DETECTOR, 3, 2, n_workers=1, on_step=steps.append)
    assert (archive.n_frames, archive.n_dark) == (3, 2)
    assert steps == ["starting 1 worker", "simulating 3 frames and 2 darks"]


def test_what_a_worker_cannot_write_is_an_error_here(tmp_path, client):
    path = tmp_path / "a.zarr"

    def block_the_way(done: int, total: int) -> None:
        if done == 0:
            (path / "dark" / "c").write_bytes(b"in the way")

    with pytest.raises(ArchiveError, match=r"a\.zarr/dark cannot be written: "):
        simulate_archive(path, DETECTOR, 20, 2000, client=client, on_progress=block_the_way)


def test_workers_that_can_not_be_started_leave_nothing_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from frame_archive.simulation import SimulatedDetector\n"
        "from pipeline.simulation import simulate_archive\n"
        "simulate_archive('a.zarr', SimulatedDetector(shape=(24, 31)), 3, n_workers=1)\n"
    )
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 worker could not be started on this machine (" in ended.stderr
    assert 'under `if __name__ == "__main__":`' in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_place_that_is_taken_is_said_before_any_worker_is_started(tmp_path):
    steps = []
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(ArchiveError, match="exists already"):
        simulate_archive(tmp_path / "a.zarr", DETECTOR, 3, 2, n_workers=1, on_step=steps.append)
    assert steps == []


def test_workers_belong_to_the_client_or_are_started_here(tmp_path, client):
    with pytest.raises(ValueError, match="a client has its own"):
        simulate_archive(tmp_path / "a.zarr", DETECTOR, 3, client=client, n_workers=2)
    assert not (tmp_path / "a.zarr").exists()
