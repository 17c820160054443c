"""A worker for each GPU: it sees no other, stays near it, and comes back with the same one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest
from distributed import Client

from gpu.visible import VisibleGpu
from pipeline.batches.run_record import Work
from pipeline.workers.cluster_watch import despite_deaths
from pipeline.workers.gpu_workers import PLACE, decode_threads, gpu_cluster

ENTRIES = ["MIG-22222222-aaaa", "GPU-00000001"]


@pytest.fixture(scope="module")
def client():
    gpus = [VisibleGpu(entry, None) for entry in ENTRIES]
    where = {"host": "127.0.0.1"}
    with (
        gpu_cluster(
            gpus,
            streams=3,
            scheduler_options={**where, "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"},
            worker_options={**where, "memory_limit": "1 GiB", "dashboard": False},
            security=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def seen(dask_worker):
    worker, place = dask_worker, dask_worker.plugins[PLACE]
    cores = os.sched_getaffinity(0)
    return os.environ["CUDA_VISIBLE_DEVICES"], worker.state.nthreads, cores == set(place.cores), decode_threads(worker)


def test_each_worker_sees_one_gpu_and_has_a_thread_for_each_stream(client):
    client.wait_for_workers(2)
    known = list(client.run(seen).values())
    assert sorted(entry for entry, *_ in known) == sorted(ENTRIES)
    assert {(threads, near) for _, threads, near, _ in known} == {(3, True)}
    # At least one for each stream, however few cores there are.
    assert all(decoding >= 3 for *_, decoding in known)


def test_a_worker_that_ends_comes_back_with_the_same_gpu(client):
    client.wait_for_workers(2)
    (victim, *_) = client.run(os.getpid)
    before = client.run(seen)[victim]
    pid = client.run(os.getpid)[victim]
    os.kill(pid, signal.SIGKILL)
    client.run_on_scheduler(until_replaced, victim=victim)
    known = despite_deaths(lambda: client.run(seen))
    assert victim not in known
    assert before in known.values()
    assert sorted(entry for entry, *_ in known.values()) == sorted(ENTRIES)


async def until_replaced(dask_scheduler, victim):
    while victim in dask_scheduler.workers or len(dask_scheduler.workers) < 2:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("ahead", "chained", "expected"), [(None, False, 12), (1, False, 8), (1, True, 1)], ids=["cores", "GPUs", "chain"]
)
def test_a_gpu_has_one_batch_more_in_flight_than_streams(ahead, chained, expected):
    work = Work("", None, 1, (), chained=chained, ahead=ahead)  # type: ignore[arg-type]
    assert work.in_flight(workers=2, threads=6) == expected
