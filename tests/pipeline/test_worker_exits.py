"""How a worker ended, told by real workers that end in each of the ways."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import numpy as np
import pytest
from distributed import KilledWorker, WorkerPlugin

from pipeline import ClusterConfig, open_cluster
from pipeline.workers.cluster_watch import despite_deaths
from pipeline.workers.deaths import DeathsByTask
from pipeline.workers.worker_exits import WorkerExit, WorkerExits

ANY_MEMORY = 1 << 40


@pytest.fixture(scope="module")
def small_workers():
    """A cluster of one worker that may take 600 MB; it is killed and comes back."""
    with open_cluster(ClusterConfig(workers=1, memory_limit="600 MB")) as client:
        yield client


@pytest.fixture
def listening(small_workers):
    # The nanny of a worker that was just killed is told of plugins once its next worker is there.
    small_workers.wait_for_workers(1)
    exits = WorkerExits(small_workers, uuid.uuid4().hex[:8])
    exits.listen()
    yield exits
    exits.stop()


def end_by(number):
    os.kill(os.getpid(), number)
    signal.pause()


def take(nbytes):
    taken = np.ones(nbytes, np.uint8)
    signal.pause()
    return taken


def last_words(client, exits, task, *arguments):
    """What is told of the worker that a task ended four times over, which is when Dask gives it up."""
    with pytest.raises(KilledWorker) as error:
        client.submit(task, *arguments, pure=False).result()
    ended = exits.of(error.value.last_worker.address, patience=30)
    assert ended is not None
    return ended, error.value


class DiesOnce(WorkerPlugin):
    """Kills the first worker that it comes to."""

    name = "dies-once"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def setup(self, worker):
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_ends_while_it_is_prepared_costs_nothing(small_workers, tmp_path):
    small_workers.wait_for_workers(1)
    despite_deaths(lambda: small_workers.register_plugin(DiesOnce(tmp_path / "mark")))
    small_workers.wait_for_workers(1)
    assert small_workers.submit(pow, 2, 3).result() == 8
    assert (tmp_path / "mark").exists()
    small_workers.unregister_worker_plugin("dies-once")


@pytest.mark.parametrize(
    ("number", "cause", "said"),
    [
        (signal.SIGSEGV, "crash", "SIGSEGV: a crash in compiled code and not want of memory"),
        (signal.SIGKILL, "killed", "SIGKILL, which something outside photonflow sent"),
    ],
)
def test_a_crash_and_a_kill_are_told_apart(small_workers, listening, number, cause, said):
    ended, error = last_words(small_workers, listening, end_by, number)
    assert (ended.cause, ended.exit_code) == (cause, -number)
    assert said in DeathsByTask(lambda worker: ended).sentence(error, {})


def test_a_worker_beyond_its_limit_died_of_memory(small_workers, listening):
    ended, error = last_words(small_workers, listening, take, 1_000_000_000)
    assert ended.cause == "memory"
    assert ended.limit_bytes == 600_000_000
    assert "for want of memory" in DeathsByTask(lambda worker: ended).sentence(error, {})


@pytest.mark.slow
def test_a_worker_that_the_system_kills_for_memory_died_of_memory(listening):
    group = Path("/sys/fs/cgroup/memory") / f"photonflow-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("400000000")
    except OSError as error:
        pytest.skip(f"no memory cgroup of version 1 can be made here: {error}")

    def take_in_group(path, nbytes):
        Path(path, "cgroup.procs").write_text(str(os.getpid()))
        return take(nbytes)

    with open_cluster(ClusterConfig(workers=1)) as client:
        exits = WorkerExits(client, "oom")
        exits.listen()
        ended, _ = last_words(client, exits, take_in_group, str(group), 1_000_000_000)
    group.rmdir()
    assert (ended.cause, ended.exit_code) == ("memory", -signal.SIGKILL)


@pytest.mark.parametrize(
    ("n_workers", "advice"),
    [(8, "use --cpus 6, for which that is enough"), (6, "use --cpus 5, for which"), (1, "there are: use a smaller")],
)
def test_the_number_of_workers_that_would_fit_is_said(n_workers, advice):
    ended = WorkerExit("w", "n", -9, "memory", peak_bytes=2 << 30, limit_bytes=0, memory_bytes=16 << 30)
    deaths = DeathsByTask(lambda worker: ended, n_workers=n_workers)
    assert advice in deaths.sentence(KilledWorker("find-r-1", FakeAddress(), 3), {})


class FakeAddress:
    address = "w"
