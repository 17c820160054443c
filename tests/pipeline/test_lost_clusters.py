"""Schedulers and workers that go away or hang in the middle of a run: real processes, killed and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
from pipeline.workers.cluster_watch import Patience

DASK = Path(sys.executable).with_name("dask")


class Processes:
    """A scheduler and workers as a facility runs them, each a process of its own."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._file = folder / "scheduler.json"
        self._folder = folder
        self._stack = stack
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        while not (self._file.exists() and self._file.read_text()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.scheduler.wait(timeout=0.05)
                raise AssertionError("the scheduler ended")
        self.config = ClusterConfig(kind="existing", scheduler=json.loads(self._file.read_text())["address"])

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-dashboard", *options)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [DASK, *arguments, "--scheduler-file", self._file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            start_new_session=True,
        )
        self._stack.callback(process.wait)
        # The whole session: a nanny that is killed leaves its worker a moment to notice.
        self._stack.callback(end, process, signal.SIGKILL)
        return process


def end(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@pytest.fixture
def processes(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Processes(tmp_path, stack)


def run(archive, client, do, at=3, notices=None, **patience):
    """Run, and do something once so many batches are found."""

    def on_progress(progress):
        if progress.batches == at:
            do()

    client.wait_for_workers(1)
    prepared = prepare(RunOptions(archive.path, batch_size=5, overwrite=True))
    notices = [] if notices is None else notices
    return execute(prepared, client, on_progress=on_progress, on_notice=notices.append, patience=Patience(**patience))


def test_a_scheduler_that_goes_away_ends_the_run_and_is_named(processes, make_archive):
    processes.start_worker()
    with open_cluster(processes.config) as client:
        name = rf"the scheduler at {processes.config.scheduler} (went away|has gone)"
        with pytest.raises(ClusterUnavailableError, match=name):
            run(make_archive(), client, lambda: end(processes.scheduler, signal.SIGKILL))


def test_a_scheduler_that_hangs_ends_the_run_after_the_time_that_was_set(processes, make_archive):
    processes.start_worker()
    with open_cluster(processes.config) as client:
        with pytest.raises(
            ClusterUnavailableError, match="has not answered for 8 s: it hangs, or the link to it is cut"
        ):
            run(make_archive(), client, lambda: end(processes.scheduler, signal.SIGSTOP), cluster_seconds=8)
        end(processes.scheduler, signal.SIGCONT)


def test_workers_that_are_gone_are_waited_for_and_that_is_said(processes, make_archive):
    archive = make_archive()
    worker = processes.start_worker("--no-nanny")
    notices = []
    with open_cluster(processes.config) as client:
        expected = run(archive, client, lambda: None)

        class Notices(list):
            def append(self, notice):
                super().append(notice)
                if "has no worker" in notice:
                    processes.start_worker("--no-nanny")

        notices = Notices()
        result = run(archive, client, lambda: end(worker, signal.SIGKILL), notices=notices, cluster_seconds=120)
        assert "waiting up to 120 s for one" in notices[0]
        assert "there again" in notices[1]
        assert result.digest == expected.digest


def test_workers_that_stay_away_end_the_run_after_the_time_that_was_set(processes, make_archive):
    worker = processes.start_worker("--no-nanny")
    said = r"has had no worker for 8 s: .*dask worker tcp://"
    with open_cluster(processes.config) as client, pytest.raises(ClusterUnavailableError, match=said):
        run(make_archive(), client, lambda: end(worker, signal.SIGKILL), cluster_seconds=8)


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_a_worker_that_hangs_is_ended_and_its_batch_done_elsewhere(processes, make_archive, nanny):
    archive = make_archive()
    processes.start_worker(nanny, "--nworkers", "1")
    processes.start_worker(nanny, "--nworkers", "1")
    notices = []
    with open_cluster(processes.config) as client:
        client.wait_for_workers(2)
        expected = run(archive, client, lambda: None)
        # Stopped in the middle of whatever it does, as a read from a dead file server stops it.
        stuck = next(iter(client.run(os.getpid).values()))
        result = run(archive, client, lambda: os.kill(stuck, signal.SIGSTOP), at=2, notices=notices, batch_seconds=5)
        assert any("longer than --batch-timeout 5: that worker is ended" in notice for notice in notices)
        assert result.digest == expected.digest
        assert xr.open_zarr(result.out).sizes["frame"] == 97
    with contextlib.suppress(ProcessLookupError):
        os.kill(stuck, signal.SIGKILL)
