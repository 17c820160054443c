"""Schedulers and workers that go away, hang or can't be reached: real processes, killed, stopped, their links cut."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
import xarray as xr
from distributed import as_completed

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
from pipeline.workers.cluster_watch import ClusterWatch, Patience

DASK = Path(sys.executable).with_name("dask")


class Processes:
    """A scheduler and workers, each a process of its own.

    Args:
        folder: Where they meet.
        stack: What ends them.
        host: The address that the scheduler listens on.
        namespace: The network namespace that the scheduler lives in; "" is this process's own.
    """

    def __init__(self, folder: Path, stack: contextlib.ExitStack, host: str = "127.0.0.1", namespace: str = "") -> None:
        self._file = folder / "scheduler.json"
        self._folder = folder
        self._stack = stack
        arguments = ("scheduler", "--host", host, "--port", "0", "--no-dashboard")
        self.scheduler = self._start(*arguments, namespace=namespace)
        while not (self._file.exists() and self._file.read_text()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.scheduler.wait(timeout=0.05)
                raise AssertionError("the scheduler ended")
        self.config = ClusterConfig(kind="existing", scheduler=json.loads(self._file.read_text())["address"])

    def start_worker(self, *options: str, namespace: str = "") -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-dashboard", *options, namespace=namespace)

    def _start(self, *arguments: str, namespace: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *(("ip", "netns", "exec", namespace) if namespace else ()),
                DASK,
                *arguments,
                "--scheduler-file",
                self._file,
            ],
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


def test_a_result_that_is_lost_with_its_worker_is_waited_for_anew(processes):
    worker = processes.start_worker("--no-nanny")
    with open_cluster(processes.config) as client:
        client.wait_for_workers(1)
        future = client.submit(pow, 2, 3)
        queue = as_completed([future], loop=client.loop)
        until(queue.has_ready)
        end(worker, signal.SIGKILL)
        until(lambda: future.status != "finished")
        processes.start_worker("--no-nanny")
        (done,) = ClusterWatch(client, "r").next_done(queue)
        assert (done.status, done.result()) == ("finished", 8)


def until(condition):
    while not condition():
        time.sleep(0.02)


def test_a_result_that_is_lost_between_being_done_and_being_taken_is_waited_for_anew(processes, make_archive):
    archive = make_archive()
    workers = [processes.start_worker("--no-nanny", "--nthreads", "4")]
    with open_cluster(processes.config) as client:
        client.wait_for_workers(1)

        def states():
            return {future.status for future in client.futures.values()}

        def wait_for(holds):
            while not holds():
                time.sleep(0.02)

        def on_progress(progress):
            if progress.batches == 1:
                # All that was begun is done, and comes at once; taking the first of it, the others are lost.
                wait_for(lambda: states() == {"finished"})
            elif progress.batches == 2:
                end(workers[0], signal.SIGKILL)
                wait_for(lambda: "finished" not in states())
                workers.append(processes.start_worker("--no-nanny"))

        execute(prepare(RunOptions(archive.path, batch_size=5)), client, on_progress=on_progress)
    expected = archive.reference(batch_size=5)["n_clusters"]
    assert xr.open_zarr(archive.out).n_clusters.values.tolist() == expected.tolist()


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


class Elsewhere:
    """A network namespace with a link to this one; what runs in it is on another machine as far as the network goes."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        name = uuid.uuid4().hex[:6]
        self.namespace = f"photonflow-{name}"
        self._link = f"pf{name}"
        self._stack = stack
        try:
            ip("netns", "add", self.namespace)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespace can be made here: {error}")
        stack.callback(ip, "netns", "delete", self.namespace)
        ip("link", "add", self._link, "type", "veth", "peer", "name", "there", "netns", self.namespace)
        stack.callback(ip, "link", "delete", self._link)
        ip("address", "add", "10.223.7.1/30", "dev", self._link)
        ip("link", "set", self._link, "up")
        for arguments in (("address", "add", "10.223.7.2/30", "dev", "there"), ("link", "set", "there", "up")):
            ip("-n", self.namespace, *arguments)
        ip("-n", self.namespace, "link", "set", "lo", "up")

    def lose_packets(self, every: int) -> None:
        """From now on every so many packets in each direction one gets lost."""
        if shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip("there is no nft to lose packets with (Debian: apt install nftables)")
        rules = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; numgen inc mod {every} == 0 counter drop; }}\n"
            for hook in ("input", "output")
        )
        command = ["ip", "netns", "exec", self.namespace, "nft", "-f", "-"]
        table = f"table inet loss {{\n{rules}}}\n"
        done = subprocess.run(command, input=table, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this system can't lose packets (nftables): {done.stderr}")

    def lost(self) -> int:
        """Packets that got lost."""
        command = ["ip", "netns", "exec", self.namespace, "nft", "list", "table", "inet", "loss"]
        rules = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return sum(map(int, re.findall(r"counter packets (\d+)", rules)))

    def cut(self, seconds: float) -> None:
        """Cut the link for a time, and go on meanwhile."""
        ip("link", "set", self._link, "down")
        mend = threading.Timer(seconds, ip, ("link", "set", self._link, "up"))
        mend.start()
        self._stack.callback(mend.join)
        self._stack.callback(mend.cancel)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def elsewhere(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Elsewhere(stack)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "said"), [(10, 0), (45, 1)])
def test_a_worker_whose_link_is_cut_loses_no_cluster(elsewhere, tmp_path, make_archive, seconds, said):
    archive = make_archive()
    notices = []
    with contextlib.ExitStack() as stack:
        processes = Processes(tmp_path, stack, host="10.223.7.1")
        processes.start_worker("--no-nanny", namespace=elsewhere.namespace)
        with open_cluster(processes.config) as client:
            expected = run(archive, client, lambda: None)

            def cut():
                elsewhere.cut(seconds)
                # Another one, which takes over what a worker that stays away had in hand.
                late = threading.Timer(seconds + 5, processes.start_worker, ("--no-nanny",))
                late.start()
                stack.callback(late.join)

            result = run(archive, client, cut, notices=notices, cluster_seconds=120)
    assert result.digest == expected.digest
    assert any("has no worker" in notice for notice in notices) == bool(said), notices


@pytest.mark.slow
def test_workers_behind_a_link_that_loses_packets_lose_no_cluster(elsewhere, tmp_path, make_archive):
    archive = make_archive()
    with contextlib.ExitStack() as stack:
        processes = Processes(tmp_path, stack, host="10.223.7.1")
        for _ in range(2):
            processes.start_worker(namespace=elsewhere.namespace)
        with open_cluster(processes.config) as client:
            client.wait_for_workers(2)
            expected = run(archive, client, lambda: None)
            result = run(archive, client, lambda: elsewhere.lose_packets(10), cluster_seconds=120)
            assert elsewhere.lost() > 0
    assert result.digest == expected.digest


@pytest.mark.slow
def test_a_scheduler_whose_link_is_cut_ends_the_run_after_the_time_that_was_set(elsewhere, tmp_path, make_archive):
    with contextlib.ExitStack() as stack:
        processes = Processes(tmp_path, stack, host="10.223.7.2", namespace=elsewhere.namespace)
        processes.start_worker(namespace=elsewhere.namespace)
        with (
            open_cluster(processes.config) as client,
            pytest.raises(ClusterUnavailableError, match=r"has not answered for 15 s: .*the link to it is cut"),
        ):
            run(make_archive(), client, lambda: elsewhere.cut(25), cluster_seconds=15)
