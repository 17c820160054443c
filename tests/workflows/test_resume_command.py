"""``photonflow process … --resume`` after real ends: killed, out of disk, two at once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray as xr

from frame_archive import create_archive

VENV_BIN = Path(sys.executable).parent
OF_THE_RUN = ("history", "run_id", "runs", "throughput")


@pytest.fixture(scope="module")
def many_batches(tmp_path_factory):
    """An archive that takes a while in batches of one frame, and the dataset of an undisturbed run."""
    folder = tmp_path_factory.mktemp("resume")
    rng = np.random.default_rng(2)
    frames = rng.normal(1000, 5, (80, 8, 9))
    frames[np.arange(80), rng.integers(1, 7, 80), rng.integers(1, 8, 80)] += 300
    writer = create_archive(folder / "a.zarr", shape=frames.shape, dtype=np.uint16, n_dark=100, frames_per_chunk=8)
    writer.write_dark(0, rng.normal(1000, 5, (100, 8, 9)).astype(np.uint16))
    writer.write_frames(0, frames.astype(np.uint16))
    done = process(folder, "--out", "undisturbed.zarr")
    assert done.returncode == 0, done.stderr
    return folder


def process(folder, *arguments, **options):
    command = [VENV_BIN / "photonflow", "process", "a.zarr", "--batch-size", "1", "--cpus", "1", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, **options)


@contextlib.contextmanager
def started(folder, *arguments, until):
    """A run in a session of its own, once ``until`` stands in a line that it says."""
    command = [VENV_BIN / "photonflow", "process", "a.zarr", "--batch-size", "1", "--cpus", "1", *arguments]
    run = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert any(until in line for line in run.stderr)
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def assert_undisturbed(folder, out):
    for group in (None, "pedestal"):
        found, expected = (xr.open_zarr(path, group=group).load() for path in (out, folder / "undisturbed.zarr"))
        for name in OF_THE_RUN:
            found.attrs[name] = expected.attrs.get(name)
        assert found.drop_attrs(deep=False).identical(expected.drop_attrs(deep=False))
        assert found.attrs.get("digest") == expected.attrs.get("digest")


@pytest.mark.parametrize(("how", "frames"), [("killed", 8), ("two Ctrl-C", 40)])
def test_a_client_that_ends_at_once_leaves_what_resume_goes_on_from(many_batches, how, frames):
    out = many_batches / "killed.zarr"
    with started(many_batches, "--out", "killed.zarr", "--overwrite", until=f"{frames} of 80") as run:
        if how == "killed":
            run.kill()
        else:
            # A worker that does nothing, so that the first Ctrl-C does not end it.
            for child in psutil.Process(run.pid).children():
                child.suspend()
            run.send_signal(signal.SIGINT)
            assert any("Ctrl-C again" in line for line in run.stderr)
            run.send_signal(signal.SIGINT)
        run.wait(timeout=300)
        # Its workers may live a little longer, and write what they have in hand.
        again = process(many_batches, "--out", "killed.zarr", "--resume", "--json")
        # To the end of the last process of the run: nothing of Dask's or Python's own.
        said = run.stderr.read()
    assert not {"Traceback", "resource_tracker"} & set(said.replace(":", " ").split()), said
    assert again.returncode == 0, again.stderr
    assert f"process {run.pid} on " in again.stderr
    summary = json.loads(again.stdout)
    assert summary["frames"] + summary["frames_kept"] == 80
    assert_undisturbed(many_batches, out)
    last = process(many_batches, "--out", "killed.zarr", "--resume", "--no-progress")
    assert (last.returncode, last.stderr) == (0, "")
    assert "nothing to resume" in last.stdout
    assert not list(many_batches.glob("killed.zarr.*"))


def test_the_line_that_an_interrupted_run_says_goes_on_with_it(many_batches):
    with started(many_batches, "--out", "stopped.zarr", "--overwrite", until="8 of 80") as run:
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 130
    line = said.strip().splitlines()[-1].partition("go on with: ")[2]
    assert line.startswith("photonflow process a.zarr"), said
    environment = os.environ | {"PATH": f"{VENV_BIN}:{os.environ['PATH']}"}
    again = subprocess.run(["bash", "-c", line], cwd=many_batches, env=environment, capture_output=True, check=False)
    assert again.returncode == 0, again.stderr
    assert_undisturbed(many_batches, many_batches / "stopped.zarr")


def test_of_two_runs_at_once_the_second_is_refused(many_batches):
    with started(many_batches, "--out", "two.zarr", "--overwrite", until="finding clusters") as first:
        workers = psutil.Process(first.pid).children()
        for worker in workers:
            worker.suspend()
        for option in ("--overwrite", "--resume"):
            second = process(many_batches, "--out", "two.zarr", option)
            assert second.returncode == 1
            assert f"is being written by process {first.pid} on {os.uname().nodename}: " in second.stderr
        for worker in workers:
            worker.resume()
        assert first.wait(timeout=240) == 0
    assert_undisturbed(many_batches, many_batches / "two.zarr")


def test_skipped_batches_are_listed_and_told_by_the_exit_code(many_batches):
    folder = many_batches / "broken"
    shutil.copytree(many_batches / "a.zarr", folder / "a.zarr")
    chunk = folder / "a.zarr" / "frames" / "c" / "9" / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:40])
    arguments = ("--batch-size", "20", "--on-bad-batch", "skip")
    done = process(folder, *arguments, "--no-progress")
    assert (done.returncode, done.stderr) == (3, "")
    assert "20 frames of 1 batch are not in the dataset" in done.stdout
    assert "batch 3 (frames 60:80): unreadable" in done.stdout
    assert "c/9/0/0" in done.stdout
    assert "--on-bad-batch skip --no-progress --resume" in done.stdout
    inspected = subprocess.run(
        [VENV_BIN / "photonflow", "inspect", folder / "a.clusters.zarr"], capture_output=True, text=True, check=True
    )
    assert "60 to 79" in inspected.stdout
    as_json = process(folder, *arguments, "--resume", "--json", "--no-progress")
    assert (as_json.returncode, as_json.stderr) == (3, "")
    (skipped,) = json.loads(as_json.stdout)["skipped"]
    assert (skipped["batch"], skipped["first_frame"], skipped["stop_frame"], skipped["status"]) == (
        3,
        60,
        80,
        "unreadable",
    )
    chunk.write_bytes(content)
    assert process(folder, *arguments, "--resume").returncode == 0
    assert not xr.open_zarr(folder / "a.clusters.zarr").frame_status.any()


def test_a_full_disk_ends_the_run_in_a_sentence_and_room_lets_it_go_on(many_batches, tmp_path):
    may_mount = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=False)
    if may_mount.returncode:
        pytest.skip("this user may not mount a file system")
    run = f"{VENV_BIN}/photonflow process a.zarr --batch-size 1 --cpus 1 --no-progress --out {tmp_path}/disk/c.zarr"
    script = f"""
        mkdir {tmp_path}/disk && mount -t tmpfs -o size=1m tmpfs {tmp_path}/disk
        {run} --on-bad-batch skip; echo $? >{tmp_path}/first
        mount -o remount,size=50m {tmp_path}/disk
        {run} --on-bad-batch skip --resume && cp -r {tmp_path}/disk/c.zarr {tmp_path}/c.zarr
    """
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script], cwd=many_batches, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "first").read_text() == "1\n"
    sentences = [line for line in done.stderr.splitlines() if "No space left on device" in line]
    assert len(sentences) == 1, done.stderr
    assert "make room there; go on with: photonflow process a.zarr" in sentences[0]
    assert_undisturbed(many_batches, tmp_path / "c.zarr")
