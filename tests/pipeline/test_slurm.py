"""Workers in the jobs of a real Slurm: two nodes on this machine, their jobs cancelled, out of time, lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from distributed import Event

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
from pipeline.workers.cluster_check import check_cluster
from pipeline.workers.cluster_watch import ClusterWatch, Patience

pytestmark = pytest.mark.slow

NODES = ("n1", "n2")
CONF = """
ClusterName=photonflow
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SlurmdTimeout=10
EnforcePartLimits=ALL
InactiveLimit=0
KillWait=2
ReturnToService=2
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PartitionName=work Nodes={nodes} Default=YES MaxTime=60 State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=4000\n"


class Slurm:
    """A Slurm of two nodes, which are processes of this machine."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        (folder / "state").mkdir()
        ports = free_ports(1 + len(NODES))
        user = psutil.Process().username()
        text = CONF.format(port=ports[0], user=user, folder=folder, nodes=",".join(NODES))
        text += "".join(NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True))
        (folder / "slurm.conf").write_text(text)
        self._start("slurmctld", "-D")
        self.nodes = {name: self._start("slurmd", "-D", "-N", name) for name in NODES}
        # Where it takes longer something is wrong, and its log says what.
        for _ in range(600):
            states = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True).stdout.split()
            if states == ["idle"] * len(NODES):
                return
            threading.Event().wait(0.1)
        raise AssertionError((folder / "slurmctld.log").read_text())

    def jobs(self) -> list[str]:
        return self.say("squeue", "-h", "-t", "PENDING,RUNNING,CONFIGURING", "-o", "%A").split()

    def say(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def lose(self, node: str) -> None:
        """A node goes down with all that runs on it: nothing there says a last word to anybody."""
        os.kill(self.nodes[node].pid, signal.SIGKILL)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                here = environment.get("SLURM_CONF") == str(self.folder / "slurm.conf")
                if here and environment.get("SLURMD_NODENAME") == node:
                    for lost in (process, *process.parents()):
                        if lost == process or lost.name().startswith("slurmstepd"):
                            lost.kill()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def free_ports(count):
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    missing = [name for name in ("slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]} to start a Slurm with (Debian: apt install slurm-wlm)")
    folder = tmp_path / "slurm"
    folder.mkdir()
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path / "dask"))
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        yield Slurm(folder, stack)


def config(workers=2, job="{walltime: '00:10:00', leave_before: 1 minute}", folder=Path(), more=""):
    number = "" if workers is None else f"workers: {workers}\n"
    text = f"kind: slurm\n{number}memory_limit: 700 MiB\ninterface: lo\n{more}slurm: {job}\n"
    (folder / "slurm.yaml").write_text(text)
    return ClusterConfig.from_yaml(str(folder / "slurm.yaml"))


def run(archive, client, do=lambda: None, at=3):
    """Run, and do something once so many batches are found; the time that it takes nothing goes on."""

    def on_progress(progress):
        if progress.batches == at:
            do()

    prepared = prepare(RunOptions(archive.path, batch_size=5, overwrite=True))
    patience = Patience(worker_seconds=300)
    return execute(prepared, client, on_progress=on_progress, patience=patience)


def addresses(client):
    return set(client.scheduler_info(n_workers=-1)["workers"])


def wait_until(holds):
    for _ in range(9000):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it did not come to that within 15 minutes")


def test_jobs_that_are_cancelled_are_replaced_and_lose_no_cluster(slurm, client, make_archive):
    archive = make_archive()
    expected = run(archive, client)
    with open_cluster(config()) as ours:
        first = set()

        def cancel():
            first.update(slurm.jobs())
            slurm.say("scancel", *first)

        result = run(archive, ours, cancel)
        wait_until(lambda: len(addresses(ours)) == 2)
        assert first.isdisjoint(slurm.jobs())
        assert len(first) == len(slurm.jobs()) == 2
    assert result.digest == expected.digest
    assert slurm.jobs() == []


def test_a_job_whose_node_goes_down_is_replaced_and_loses_no_cluster(slurm, client, make_archive):
    archive = make_archive()
    expected = run(archive, client)
    # Memory for one job a node.
    with open_cluster(config(more="threads: 2\n")) as ours:
        ours.wait_for_workers(2)
        before = addresses(ours)

        def lose():
            slurm.lose("n2")
            wait_until(lambda: len(addresses(ours) & before) == 1)

        result = run(archive, ours, lose)
        assert result.digest == expected.digest
        # The node comes back, and with it the second worker.
        slurm.nodes["n2"] = slurm._start("slurmd", "-D", "-N", "n2")
        wait_until(lambda: len(addresses(ours)) == 2)


def test_workers_leave_before_their_walltime_ends_and_their_batches_move(slurm, client, make_archive):
    archive = make_archive()
    expected = run(archive, client)
    with open_cluster(config(job="{walltime: '00:01:00', leave_before: 20 s}")) as ours:
        ours.wait_for_workers(2)
        before = addresses(ours)
        result = run(archive, ours, lambda: wait_until(lambda: addresses(ours).isdisjoint(before)))
    assert result.digest == expected.digest
    states = (slurm.folder / "slurmctld.log").read_text()
    assert "TIMEOUT" not in states
    assert "Time limit exhausted" not in states


def test_a_walltime_that_is_reached_ends_jobs_that_are_replaced(slurm, client, make_archive):
    archive = make_archive()
    expected = run(archive, client)
    with open_cluster(config(workers=1, job="{walltime: '00:01:00', leave_before: 1 s}")) as ours:
        ours.wait_for_workers(1)
        before = addresses(ours)
        result = run(archive, ours, lambda: wait_until(lambda: addresses(ours).isdisjoint(before)))
    assert result.digest == expected.digest


def test_jobs_that_slurm_refuses_end_it_in_a_sentence(slurm):
    refused = "Slurm refuses the job: invalid partition specified: moon"
    with pytest.raises(ClusterUnavailableError, match=refused), open_cluster(config(job="{queue: moon}")):
        pass
    assert slurm.jobs() == []


def test_jobs_that_end_before_their_worker_comes_are_named_with_their_log(slurm):
    with open_cluster(config(job="{python: /no/python}")) as ours:
        watch = ClusterWatch(ours, patience=Patience(worker_seconds=600))
        with pytest.raises(ClusterUnavailableError, match=r"see its log .*photonflow-\d+\.err \(.*/no/python"):
            watch.wait_for_worker()


def test_jobs_of_a_client_that_is_killed_end_by_themselves(slurm, tmp_path):
    config(more="tls: true\n")
    command = [sys.executable, "-m", "workflows.cluster", "start", str(tmp_path / "slurm.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("scheduler: tls://127.0.0.1:")
            while "2 workers" not in process.stderr.readline():
                assert process.poll() is None
        finally:
            process.kill()
    assert len(slurm.jobs()) == 2
    wait_until(lambda: slurm.jobs() == [])


def test_adaptive_bounds_follow_the_work(slurm):
    with open_cluster(config(workers=None, more="adaptive: {minimum: 1, maximum: 2}\n")) as ours:
        ours.wait_for_workers(1)
        go_on = Event("go on", client=ours)
        futures = ours.map(lambda k: Event("go on").wait(), range(40), pure=False)
        ours.wait_for_workers(2)
        go_on.set()
        ours.gather(futures)
        del futures
        wait_until(lambda: len(addresses(ours)) == 1)


def test_a_check_asks_slurm_and_starts_nothing(slurm):
    found = {check.what: check for check in check_cluster(config())}
    assert found["job"].ok
    assert "to start at" in found["job"].found
    found = {check.what: check for check in check_cluster(config(job="{queue: moon}"))}
    assert (found["job"].ok, "moon" in found["job"].found) == (False, True)
    found = {check.what: check for check in check_cluster(config(job="{walltime: 3-00:00:00}"))}
    assert not found["job"].ok
    assert slurm.jobs() == []
