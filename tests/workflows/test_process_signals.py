"""Signals at inconvenient moments: twice, too early, to a run that can't stop, from a terminal that goes away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios

import numpy as np
import psutil
import pytest

from frame_archive import create_archive
from workflows.interruptions import Interruption, Interruptions


@pytest.fixture
def long_archive(tmp_path):
    """An archive that takes a while: 20 000 batches of one frame each."""
    shape = (20_000, 4, 4)
    writer = create_archive(tmp_path / "a.zarr", shape=shape, dtype=np.uint16, n_dark=100, frames_per_chunk=1000)
    rng = np.random.default_rng(2)
    writer.write_dark(0, rng.normal(1000, 5, (100, 4, 4)).astype(np.uint16))
    writer.write_frames(0, rng.normal(1000, 5, shape).astype(np.uint16))
    return tmp_path / "a.zarr"


@contextlib.contextmanager
def started(archive, until=None, python=(), **options):
    """A run in a session of its own, once a line of its stderr holds ``until``; all of it is ended afterwards."""
    run = subprocess.Popen(
        [sys.executable, *python, "-m", "workflows.process", str(archive), "--batch-size", "1", "--cpus", "2"],
        cwd=archive.parent,
        start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
    try:
        if until is not None:
            next(line for line in run.stderr if until in line)
        yield run
    finally:
        for process in session(run.pid):
            with contextlib.suppress(psutil.Error):
                process.kill()
        run.communicate()


def session(leader):
    """The living processes of a session."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def left_of(leader):
    """What is left of a session once its processes have had half a minute to end."""
    psutil.wait_procs(session(leader), timeout=30)
    return session(leader)


def workers_of(run):
    return [child for child in psutil.Process(run.pid).children() if "spawn_main" in " ".join(child.cmdline())]


def test_a_second_ctrl_c_ends_at_once_whatever_workers_do(long_archive):
    with started(long_archive, until="finding clusters") as run:
        # Workers that do nothing at all: the run would wait for them.
        for worker in workers_of(run):
            worker.suspend()
        run.send_signal(signal.SIGINT)
        next(line for line in run.stderr if "stopping (Ctrl-C again ends at once)" in line)
        run.send_signal(signal.SIGINT)
        _, rest = run.communicate(timeout=60)
        assert left_of(run.pid) == []
    assert run.returncode == 130
    assert rest.startswith("photonflow: interrupted twice; what is at ")
    assert rest.rstrip().endswith("--cpus 2 --resume")


def test_a_signal_while_workers_start_is_one_line(long_archive):
    with started(long_archive, until="starting 2 workers") as run:
        while not workers_of(run):
            assert run.poll() is None
        run.send_signal(signal.SIGTERM)
        _, rest = run.communicate(timeout=300)
        assert left_of(run.pid) == []
    assert run.returncode == 143
    # Not a word of asyncio's about workers that ended before they had begun.
    assert rest.splitlines() == ["photonflow: terminated; nothing was written"]


def test_workers_that_do_not_end_are_ended(long_archive):
    with started(long_archive, until="finding clusters") as run:
        for worker in workers_of(run):
            worker.suspend()
        run.send_signal(signal.SIGTERM)
        _, rest = run.communicate(timeout=300)
        assert left_of(run.pid) == []
    assert run.returncode == 143
    assert rest.count("photonflow: ") == 1


def test_workers_do_not_outlive_a_client_that_is_killed(long_archive):
    with started(long_archive, until="finding clusters") as run:
        run.kill()
        assert left_of(run.pid) == []


@pytest.mark.parametrize("moment", ["numpy._core.multiarray", "distributed.scheduler"])
def test_ctrl_c_while_python_imports_is_one_line(long_archive, moment):
    with started(long_archive, until=moment, python=("-X", "importtime")) as run:
        run.send_signal(signal.SIGINT)
        _, rest = run.communicate(timeout=60)
    assert run.returncode == 130
    lines = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert lines == ["photonflow: interrupted"]


def test_a_terminal_that_is_closed_ends_the_run_and_its_workers(long_archive):
    ours, theirs = os.openpty()

    def own_the_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "preexec_fn": own_the_terminal}
    with started(long_archive, **streams) as run:
        os.close(theirs)
        seen = b""
        while b"finding clusters" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)
        run.wait(timeout=300)
        assert left_of(run.pid) == []
    assert run.returncode == 129


def test_the_first_signal_raises_and_an_ignored_one_stays_ignored():
    interruptions = Interruptions()

    def terminated_by_itself():
        with interruptions.watched():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(Interruption) as raised:
            terminated_by_itself()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (raised.value.code, str(raised.value)) == (143, "terminated")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_where_signals_are_held_they_are_asked_for_and_raised_at_the_end():
    interruptions = Interruptions()
    said = []

    def held():
        with interruptions.watched(), interruptions.held(lambda: said.append("stopping")) as should_stop:
            assert not should_stop()
            os.kill(os.getpid(), signal.SIGINT)
            while not should_stop():
                pass
            said.append("stopped")

    with pytest.raises(Interruption):
        held()
    assert said == ["stopping", "stopped"]
