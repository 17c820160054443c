"""Runs as calls of somebody's service: several at once, from async code, stopped when they are no longer wanted."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest
import zarr
from distributed import Client

from cluster_store import dataset_status
from pipeline import RunStoppedError, open_cluster, process, process_async
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.shared_settings import DASK_SETTINGS, dask_settings


def same(clusters, expected):
    for name in ("n_clusters", "frame_index", "y", "x"):
        np.testing.assert_array_equal(clusters[name], expected[name])


def test_runs_at_once_on_one_client_tell_their_own_progress_and_are_right(client, make_archive):
    archives = [make_archive(name=f"{seed}.zarr", seed=seed, n_frames=40) for seed in (1, 2, 3)]
    told = {archive.path: [] for archive in archives}

    def run(archive):
        return process(archive.path, client=client, batch_size=10, on_progress=told[archive.path].append).load()

    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(run, archives))
    for archive, clusters in zip(archives, results, strict=True):
        same(clusters, archive.reference(10))
        assert [progress.frames for progress in told[archive.path]] == [10, 20, 30, 40]


def test_one_of_two_runs_is_stopped_and_gone_on_with_and_the_other_is_not_touched(client, make_archive):
    stopped, untouched = (make_archive(name=f"{seed}.zarr", seed=seed, n_frames=80) for seed in (4, 5))
    enough = threading.Event()

    def stop():
        with pytest.raises(RunStoppedError, match="batches were found"):
            process(
                stopped.path,
                client=client,
                batch_size=2,
                should_stop=enough.is_set,
                on_progress=lambda progress: enough.set(),
            )

    with ThreadPoolExecutor(2) as threads:
        stopping = threads.submit(stop)
        other = threads.submit(lambda: process(untouched.path, client=client, batch_size=2).load())
        stopping.result()
        same(other.result(), untouched.reference(2))
    assert dataset_status(stopped.out) == "running"
    same(process(stopped.path, client=client, batch_size=2, resume=True), stopped.reference(2))


def test_each_run_has_a_span_that_names_its_dataset(client, make_archive):
    archive = make_archive(n_frames=10)
    process(archive.path, client=client, batch_size=5)
    names = client.run_on_scheduler(
        lambda dask_scheduler: [span.name for span in dask_scheduler.extensions["spans"].spans.values()]
    )
    ours = {name for name in names if name[0] == "photonflow" and len(name) == 2}
    run_id = zarr.open_group(archive.out, mode="r").attrs["run_id"]
    assert ("photonflow", f"a.clusters.zarr {run_id}") in ours


def test_what_dask_notes_of_a_run_does_not_grow_with_its_batches(client, make_archive):
    archive = make_archive(n_frames=40)
    process(archive.path, client=client, batch_size=2)
    run_id = zarr.open_group(archive.out, mode="r").attrs["run_id"]
    (noted,) = client.run_on_scheduler(
        lambda dask_scheduler: [
            len(span.metadata["collections"])
            for span in dask_scheduler.extensions["spans"].spans.values()
            if span.name[-1].endswith(run_id)
        ]
    )
    # One, and those of tasks that were submitted after the last one began.
    assert noted < 10


def test_async_code_awaits_a_run_on_its_own_asynchronous_client(client, make_archive):
    archive = make_archive(n_frames=20)
    told, threads = [], set()

    def tell(progress):
        told.append(progress.frames)
        threads.add(threading.current_thread())

    async def service():
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as ours:
            with pytest.raises(ValueError, match="await process_async"):
                process(archive.path, client=ours)
            return await process_async(archive.path, client=ours, batch_size=5, on_progress=tell)

    same(asyncio.run(service()), archive.reference(5))
    assert told == [5, 10, 15, 20]
    assert threads == {threading.current_thread()}


def test_a_run_whose_task_is_cancelled_has_stopped_by_then_and_can_be_gone_on_with(client, make_archive):
    archive = make_archive(n_frames=80)

    async def service():
        first = asyncio.Event()
        run = asyncio.create_task(
            process_async(archive.path, client=client, batch_size=2, on_progress=lambda progress: first.set())
        )
        await first.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(service())
    # Nobody writes it any more: it can be gone on with at once.
    same(process(archive.path, client=client, batch_size=2, resume=True), archive.reference(2))


def test_an_error_of_an_awaited_run_reaches_whoever_awaits_it(client, tmp_path):
    with pytest.raises(ValueError, match=r"nothing\.zarr"):
        asyncio.run(process_async(tmp_path / "nothing.zarr", client=client))


def test_clusters_one_within_and_one_beyond_the_other_leave_no_setting_behind():
    logger = logging.getLogger("distributed.client")
    before = dask.config.get("distributed.deploy.lost-worker-timeout"), logger.level
    one, other = dask_settings(), dask_settings()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    held = dask.config.get("distributed.deploy.lost-worker-timeout"), logger.level
    assert held == (DASK_SETTINGS["distributed.deploy.lost-worker-timeout"], logging.CRITICAL)
    other.__exit__(None, None, None)
    assert (dask.config.get("distributed.deploy.lost-worker-timeout"), logger.level) == before


def state_of_the_process():
    """What belongs to the whole process."""
    handlers = [handler.level for name in ("", "distributed", "bokeh") for handler in logging.getLogger(name).handlers]
    levels = [logging.getLogger(name).level for name in ("distributed", "distributed.client", "asyncssh")]
    settings = {name: value for name, value in dask.config.config.items() if name != "scheduler"}
    return repr(settings), repr(zarr.config.config), handlers, levels


def test_a_run_with_workers_of_its_own_leaves_nothing_behind_in_the_process(make_archive):
    archive = make_archive(n_frames=10)
    with open_cluster(ClusterConfig(workers=1)):
        pass  # What Dask keeps for good, such as the threads that it hands work to, is there from now on.
    before, threads = state_of_the_process(), set(threading.enumerate())
    process(archive.path, cluster=ClusterConfig(workers=1), batch_size=5)
    assert state_of_the_process() == before
    left = [thread for thread in threading.enumerate() if thread not in threads and not thread.name.startswith("Dask-")]
    for thread in left:
        thread.join(timeout=30)
    assert [thread.name for thread in left if thread.is_alive()] == []


def test_workers_of_a_file_are_told_by_its_path_or_name(make_archive, tmp_path):
    archive = make_archive(n_frames=10)
    file = tmp_path / "mine.yaml"
    file.write_text("kind: local-cpu\nworkers: 1\nenvironment: {PHOTONFLOW_TEST: here}\n")
    same(process(archive.path, cluster=file, batch_size=5), archive.reference(5))
    with pytest.raises(ValueError, match="client, cpus, gpus, scheduler and cluster exclude each other"):
        process(archive.path, cluster="local-cpu", cpus=1)


def test_a_worker_that_joins_later_has_the_environment_of_its_configuration():
    with open_cluster(ClusterConfig(workers=1, environment={"PHOTONFLOW_TEST": "here"})) as client:
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=300)

        def environment():
            import os

            return os.environ.get("PHOTONFLOW_TEST"), os.environ.get("MALLOC_ARENA_MAX")

        assert set(client.run(environment).values()) == {("here", "1")}
