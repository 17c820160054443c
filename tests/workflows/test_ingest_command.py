"""The ingest command, as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from distributed import Client, Event

from frame_archive import ArchiveError, FrameArchive
from pipeline import ClusterConfig, open_cluster


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(6).normal(1000, 5, (30, 12, 10)).astype(np.uint16)


@pytest.fixture(scope="module")
def one_worker():
    """The address of a scheduler of one worker, and the event that its tasks wait for."""
    with open_cluster(ClusterConfig(workers=1)) as client:
        yield client.scheduler.address, Event("idle", client)


def test_ingest_makes_an_archive_that_process_takes_as_the_user_goes_on(python_m, frames, tmp_path):
    rng = np.random.default_rng(7)
    for number in range(12):
        np.save(tmp_path / f"run_{number}.npy", frames + np.uint16(number))
    np.save(tmp_path / "dark_1.npy", rng.normal(1000, 5, (60, 12, 10)).astype(np.uint16))
    np.save(tmp_path / "dark_2.npy", rng.normal(1000, 5, (60, 12, 10)).astype(">u2"))
    sources = sorted(f"run_{number}.npy" for number in range(12))
    done = python_m("ingest", *sources, "a.zarr", "--dark", "dark_1.npy", "dark_2.npy", "--cpus", 1)
    assert done.code == 0, done.stderr
    told = done.stderr.splitlines()
    assert told[:2] == ["starting 1 worker", "writing"]
    assert any(" of 115 kB, " in line and line.endswith("/s") for line in told)
    lines = done.stdout.splitlines()
    assert lines[-2].startswith("wrote a.zarr: 360 frames and 120 darks of 12×10 uint16; 115 kB, ")
    assert lines[-1] == "find its photons with: python -m workflows.process a.zarr"
    archive = FrameArchive.open(tmp_path / "a.zarr")
    assert [int(archive.frames[i, 0, 0]) - int(frames[0, 0, 0]) for i in range(0, 360, 30)] == list(range(12))
    assert archive.n_dark == 120
    assert archive.attrs["ingest"]["command"].endswith("a.zarr --dark dark_1.npy dark_2.npy --cpus 1")


def test_a_source_that_ends_early_ends_with_code_3_and_json_says_what_there_is(python_m, one_worker, frames, tmp_path):
    np.save(tmp_path / "f.npy", frames)
    content = (tmp_path / "f.npy").read_bytes()
    (tmp_path / "f.npy").write_bytes(content[:-300])
    done = python_m("ingest", "f.npy", "a.zarr", "--scheduler", one_worker[0], "--json", "--no-progress")
    assert done.code == 3
    said = json.loads(done.stdout)
    assert said["frames"] == 28
    sentence = f"{tmp_path}/f.npy is cut short: 28 of its 30 frames are there"
    assert said["ended_early"] == [sentence]
    assert done.stderr == f"photonflow: warning: {sentence}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["f.npy"], 2, "name at least one source and then the archive, before --dark"),
        (["--dark", "f.npy", "f.npy", "a.zarr"], 2, "name at least one source"),
        (["f.npy", "a.zarr", "--resume", "--overwrite"], 2, "give one of them"),
        (["gone.npy", "a.zarr"], 1, "gone.npy does not exist: check the path"),
        (["f.npy", "other.npy", "a.zarr"], 1, "/f.npy of 12×10 pixels: give sources of one detector"),
        (["f.npy", "a.zarr", "--dark", "other.npy"], 1, "give darks of the same detector and region"),
        (["f.npy", "a.zarr", "--dark", "first:30"], 1, "there are only 30 frames, and some have to be left"),
        (["f.npy", "a.zarr", "--dark", "first:x"], 1, "give first:N with a number of frames, or files"),
        (["f.npy", "a.zarr", "--mask", "other.npy"], 1, "/f.npy are (12, 10): give a mask of the same detector"),
        (["f.npy", "f.npy"], 1, "f.npy exists already: choose another name"),
        (["f.npy", "f.npy", "--overwrite"], 1, "f.npy is what the archive would be made of ("),
        (["f.npy", "a.zarr", "--store-as", "float32"], 2, "is not one of 'uint8'"),
        (["s.dat", "a.zarr"], 1, "say what they are: --shape ROWSxCOLUMNS --dtype uint16"),
        (["s.dat", "a.zarr", "--shape", "12x10", "--dtype", "u17"], 2, "give one such as uint16"),
        (["s.dat", "a.zarr", "--pixel-map", "other.npy"], 1, "does not name each of its 25 values once"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence_before_anything_is_written(
    photonflow, frames, tmp_path, arguments, code, words
):
    np.save(tmp_path / "f.npy", frames)
    np.save(tmp_path / "other.npy", np.zeros((5, 5), np.uint16))
    (tmp_path / "s.dat").write_bytes(frames.tobytes())
    before = sorted(tmp_path.iterdir())
    done = photonflow("ingest", *arguments)
    assert done.code == code
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.sentence
    assert sorted(tmp_path.iterdir()) == before


def wait_for(name: str) -> None:
    Event(name).wait()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_in_the_middle_goes_on_with_resume(one_worker, photonflow, frames, tmp_path, how):
    address, idle = one_worker
    for number in range(3):
        np.save(tmp_path / f"f{number}.npy", frames + np.uint16(number))
    arguments = ["ingest", "f*.npy", "a.zarr", "--scheduler", address, "--frames-per-chunk", "7"]
    command = [sys.executable, "-m", f"workflows.{arguments[0]}", *arguments[1:]]
    idle.clear()
    with Client(address) as client:
        waits = client.submit(wait_for, "idle", pure=False)
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=tmp_path, start_new_session=True
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("writing"):
                    break
            process.send_signal(how)
            rest = process.stderr.read()
            assert process.wait(timeout=300) == (130 if how == signal.SIGINT else -how)
        idle.set()
        waits.result(timeout=60)
    if how == signal.SIGINT:
        said = "photonflow: interrupted; what is at a.zarr is unfinished; go on with --resume"
        assert rest.splitlines()[-1] == said
    assert "Traceback" not in rest
    with pytest.raises(ArchiveError, match="is unfinished"):
        FrameArchive.open(tmp_path / "a.zarr")
    done = photonflow(*arguments, "--resume")
    assert done.code == 0, done.stderr
    assert done.stdout.endswith("photonflow process a.zarr --pedestal PATH (there are no darks in it)\n")
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.frames[:], np.concatenate([frames, frames + 1, frames + 2]))
