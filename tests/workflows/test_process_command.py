"""``python -m workflows.process`` as a process of its own: what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from frame_archive import create_archive

VENV_BIN = Path(sys.executable).parent


@pytest.fixture
def many_batches(tmp_path):
    """An archive that takes a while: 20 000 batches of one frame each."""
    path = tmp_path / "long.zarr"
    writer = create_archive(path, shape=(20_000, 4, 4), dtype=np.uint16, n_dark=100, frames_per_chunk=1000)
    rng = np.random.default_rng(2)
    writer.write_dark(0, rng.normal(1000, 5, (100, 4, 4)).astype(np.uint16))
    writer.write_frames(0, rng.normal(1000, 5, (20_000, 4, 4)).astype(np.uint16))
    return path


def test_a_run_prints_one_table_and_how_to_open_the_dataset(python_m, archive):
    outcome = python_m("process", archive, "--batch-size", 10, "--cpus", 2)
    assert outcome.code == 0, outcome.stderr
    clusters = xr.open_zarr(archive.with_name("a.clusters.zarr"))
    words = outcome.stdout.split()
    assert words[words.index("frames") + 1] == "30"
    assert words[words.index("clusters") + 1] == str(clusters.sizes["cluster"])
    for said in (
        "clusters a frame",
        "frames/s",
        "decode ",
        "advice   ",
        "page faults",
        "find",
        "write",
        "pedestal moved",
        "pixels off",
        "GB/s",
    ):
        assert said in outcome.stdout
    # The last line is Python that works as it stands.
    line = outcome.stdout.splitlines()[-1].removeprefix("open it").strip()
    opened = subprocess.run(
        [sys.executable, "-c", f"{line}\nprint(clusters.sizes['cluster'])"], capture_output=True, text=True, check=True
    )
    assert int(opened.stdout) == clusters.sizes["cluster"]
    assert clusters.attrs["history"].endswith("photonflow process " + f"{archive} --batch-size 10 --cpus 2")
    # Without a terminal, progress is plain lines; the last has the rate of the table.
    (last,) = [line for line in outcome.stderr.splitlines() if line.startswith("30 of 30 frames")]
    assert f" {words[words.index('frames/s') + 1]} frames/s," in last
    assert "\x1b" not in outcome.stderr + outcome.stdout


def test_json_is_alone_on_stdout_and_no_progress_is_silent(python_m, archive):
    outcome = python_m("process", archive, "--json", "--no-progress", "--cpus", 1)
    assert (outcome.code, outcome.stderr) == (0, "")
    summary = json.loads(outcome.stdout)
    clusters = xr.open_zarr(summary["out"])
    assert summary["frames"] == 30
    assert summary["clusters"] == clusters.sizes["cluster"]
    assert summary["digest"] == clusters.attrs["digest"]
    assert set(summary["stages"]) == {"read", "decode", "find", "write"}
    assert summary["stages"]["find"]["nbytes"] == 30 * 12 * 10 * 2


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(python_m, archive):
    before = sorted(archive.parent.rglob("*"))
    outcome = python_m("process", archive, "--dry-run", "--batch-size", 7)
    assert outcome.code == 0, outcome.stderr
    for said in ("5 of 7 frames", "memory a worker", "a.clusters.zarr", "100 dark frames", "if the noise is Gaussian"):
        assert said in " ".join(outcome.stdout.split())
    facts = json.loads(python_m("process", archive, "--dry-run", "--json", "--cpus", 1).stdout)
    assert (facts["batches"], facts["frames"], facts["decoded_bytes"]) == (1, 30, 30 * 12 * 10 * 2)
    assert facts["clusters_a_frame"] == pytest.approx(1, abs=0.2)
    assert 0 < facts["false_clusters_a_frame"] < 0.001
    assert facts["worker_bytes"] > 100_000_000
    assert sorted(archive.parent.rglob("*")) == before


def test_a_stale_pedestal_is_said_in_one_line(python_m, tmp_path):
    rng = np.random.default_rng(1)
    writer = create_archive(tmp_path / "a.zarr", shape=(64, 30, 30), dtype=np.uint16, n_dark=100)
    writer.write_dark(0, rng.normal(1000, 5, (100, 30, 30)).astype(np.uint16))
    writer.write_frames(0, rng.normal(1010, 5, (64, 30, 30)).astype(np.uint16))
    outcome = python_m("process", "a.zarr", "--no-progress", "--cpus", 1)
    assert outcome.code == 0
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("photonflow: warning: the pedestal (100 dark frames of ")
    assert "--pedestal" in line


@contextlib.contextmanager
def started(archive, *arguments, until):
    """A run in a session of its own, once it has said ``until``; ended by force if it hasn't ended by itself."""
    run = subprocess.Popen(
        [sys.executable, "-m", "workflows.process", str(archive), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=archive.parent,
        start_new_session=True,
    )
    try:
        for line in run.stderr:
            if line.startswith(until):
                run.last_line = line
                break
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


@pytest.mark.parametrize(
    ("sent", "until", "code", "left"),
    [
        (signal.SIGINT, "finding clusters", 130, ["--resume"]),
        (signal.SIGTERM, "finding clusters", 143, ["--resume"]),
        (signal.SIGHUP, "finding clusters", 129, ["--resume"]),
        # A machine may be so slow that the run has begun before the ten seconds that it has to end are over.
        (signal.SIGINT, "starting", 130, ["nothing was written", "--resume"]),
    ],
    ids=["Ctrl-C", "SIGTERM", "closed terminal", "Ctrl-C while workers start"],
)
def test_an_interrupted_run_ends_with_one_line_and_leaves_no_process(many_batches, sent, until, code, left):
    with started(many_batches, "--batch-size", "1", "--cpus", "2", until=until) as run:
        # As a terminal does it: Ctrl-C reaches every process of the group.
        os.killpg(run.pid, sent) if sent == signal.SIGINT else run.send_signal(sent)
        stdout, rest = run.communicate(timeout=60)
        assert processes_of_group(run.pid) == []
    assert (run.returncode, stdout) == (code, "")
    lines = [line for line in rest.splitlines() if line.startswith("photonflow: ") or "Traceback" in line]
    assert len(lines) == 1, rest
    assert any(advice in lines[0] for advice in left)


def test_the_dashboard_is_served_where_it_was_asked_for_and_its_link_is_said(many_batches):
    arguments = ("--batch-size", "1", "--cpus", "1", "--dashboard-address", "127.0.0.1:0")
    with started(many_batches, *arguments, until="dashboard: ") as run:
        link = run.last_line.removeprefix("dashboard: ").strip()
        assert link.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(link, timeout=30) as page:
            assert b"Dask" in page.read()


def test_what_a_living_run_is_at_work_on_is_not_replaced(many_batches, python_m):
    with started(many_batches, "--batch-size", "1", "--cpus", "1", until="finding clusters") as run:
        outcome = python_m("process", many_batches, "--overwrite")
        assert outcome.code == 1
        assert f"is being written by process {run.pid} on " in outcome.sentence
        os.killpg(run.pid, signal.SIGINT)
        run.communicate(timeout=60)
    # Its writer has ended, so that it may go now.
    again = python_m("process", many_batches, "--overwrite", "--dry-run")
    assert again.code == 0, again.stderr


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "| true"])
def test_a_stdout_that_takes_nothing_costs_the_summary_and_not_the_dataset(archive, redirection):
    command = f"{VENV_BIN}/photonflow process a.zarr --cpus 1 --no-progress {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=archive.parent, check=False)
    assert "Traceback" not in done.stderr
    assert xr.open_zarr(archive.with_name("a.clusters.zarr")).attrs["status"] == "complete"
    if redirection == ">/dev/full":
        assert done.returncode == 1
        assert "is complete, but its summary can't be written to stdout" in done.stderr


def test_a_stdout_that_can_not_spell_everything_gets_the_table_all_the_same(archive):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [VENV_BIN / "photonflow", "process", archive, "--cpus", "1", "--no-progress"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "?s a frame" in done.stdout


def test_a_script_without_a_guard_is_told_what_it_lacks(archive):
    script = archive.with_name("script.py")
    script.write_text("from pipeline import process\nprocess('a.zarr', cpus=1)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=archive.parent, check=False)
    assert done.returncode == 1
    assert 'under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def processes_of_group(group, patience=10.0):
    """The command lines of a group's living processes, once they are none or patience ends."""
    deadline = time.monotonic() + patience
    while True:
        listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()]
        alive = [args for pgid, state, args in rows if int(pgid) == group and not state.startswith("Z")]
        if not alive or time.monotonic() > deadline:
            return alive


def test_a_running_scheduler_is_used_and_left_running(python_m, archive, tmp_path):
    with contextlib.ExitStack() as stack:

        def start(*arguments):
            process = subprocess.Popen(
                [VENV_BIN / "dask", *arguments, "--scheduler-file", tmp_path / "scheduler.json", "--no-dashboard"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path,
            )
            stack.callback(process.wait, timeout=30)
            stack.callback(process.terminate)
            return process

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
        start("worker", "--nthreads", "1", "--nworkers", "2")
        wait_for(tmp_path / "scheduler.json", scheduler)
        address = json.loads((tmp_path / "scheduler.json").read_text())["address"]
        outcome = python_m("process", archive, "--batch-size", 5, "--scheduler", address, "--no-progress")
        assert outcome.code == 0, outcome.stderr
        (tmp_path / "cluster.yaml").write_text(f"kind: existing\nscheduler: {address}\n")
        again = python_m("process", archive, "--batch-size", 5, "--cluster", "cluster.yaml", "--overwrite", "--json")
        assert again.code == 0, again.stderr
        assert scheduler.poll() is None
    alone = python_m("process", archive, "--batch-size", 5, "--out", "alone.zarr", "--json", "--cpus", 1)
    assert json.loads(alone.stdout)["digest"] == json.loads(again.stdout)["digest"]


def wait_for(file, process):
    """Wait until a process has written a file; fails if the process ends first."""
    while not (file.exists() and file.read_text()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            raise AssertionError("the scheduler ended")


@pytest.mark.parametrize("name", ["analysis", "finder", "pipeline"])
def test_a_file_that_hides_a_package_is_named(python_m, tmp_path, name):
    intruder = tmp_path / f"{name}.py"
    intruder.write_text("x = 1\n")
    outcome = python_m("process", "a.zarr")
    assert outcome.code == 1
    assert outcome.stderr.count("\n") == 1
    assert str(intruder) in outcome.stderr


def test_the_program_is_not_misled_by_a_file_in_the_current_folder(archive, tmp_path):
    (tmp_path / "analysis.py").write_text("raise RuntimeError('not this one')\n")
    done = subprocess.run([VENV_BIN / "photonflow", "process", archive, "--dry-run"], cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_a_checkout_that_was_never_installed_says_so_in_one_sentence(tmp_path):
    root = Path(__file__).parents[2]
    isolated = [sys.executable, "-I", "-S", "-c"]
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import workflows"
    done = subprocess.run([*isolated, program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "make demo" in done.stderr


def test_help_and_version_are_there(photonflow):
    assert "simulate" in photonflow("--help").stdout
    assert "--pedestal" in photonflow("process", "--help").stdout
    assert photonflow("--version").stdout.startswith("photonflow, version 0.")
