"""Workers fit into the memory that there is, or are fewer, or are refused with the number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from finder import CommonMode, FinderParameters
from gpu.memory_plan import CUDA_CONTEXT_BYTES
from pipeline import ClusterConfig, RunOptions, prepare
from pipeline.checks.forecast import dense_worker_bytes, forecast, worker_bytes
from pipeline.checks.sizing import fit_to_memory, require_memory
from pipeline.errors import NotEnoughMemoryError
from pipeline.workers.memory import MemoryThereIs


@pytest.fixture
def prepared(make_archive):
    return prepare(RunOptions(make_archive().path))


@pytest.fixture
def there_is(monkeypatch):
    """Say how much memory is available: a machine of just that size can't be had."""

    def say(available):
        there_is = MemoryThereIs(64 << 30, available, "this machine")
        monkeypatch.setattr("pipeline.checks.sizing.memory_there_is", lambda: there_is)

    return say


def test_workers_that_fit_are_started_as_asked(prepared):
    sized = fit_to_memory(prepared, ClusterConfig(workers=2))
    assert (sized.config.n_workers, sized.notice) == (2, None)
    assert sized.worker_bytes <= dense_worker_bytes(prepared)


def test_more_than_fit_are_fewer_and_that_is_said(prepared, there_is):
    needed = forecast(prepared).worker_bytes
    there_is(3 * needed + needed // 2)
    sized = fit_to_memory(prepared, ClusterConfig(workers=8))
    assert sized.config.n_workers == 3
    assert sized.notice.startswith("starting 3 workers instead of 8: each needs up to about ")
    assert int(sized.config.memory_limit) * 3 <= 64 << 30


def test_where_not_one_fits_the_run_is_refused_with_the_number(prepared, there_is):
    there_is(100_000_000)
    with pytest.raises(NotEnoughMemoryError, match=r"needs up to about \d+ MB and this machine has 100 MB to spare"):
        fit_to_memory(prepared, ClusterConfig(workers=2))


def test_a_memory_limit_below_what_a_batch_needs_is_refused(prepared):
    with pytest.raises(NotEnoughMemoryError, match="its memory_limit is 200 MB: raise that"):
        fit_to_memory(prepared, ClusterConfig(workers=1, memory_limit="200 MB"))


def test_threads_add_what_each_holds_and_share_the_process(prepared, there_is):
    one = forecast(prepared).worker_bytes
    there_is(one + (1 << 20))
    assert fit_to_memory(prepared, ClusterConfig(workers=1)).config.n_workers == 1
    with pytest.raises(NotEnoughMemoryError):
        fit_to_memory(prepared, ClusterConfig(workers=1, threads=10))


def test_a_worker_with_a_gpu_needs_what_cuda_takes_of_the_hosts_memory_once(prepared):
    on_gpus = replace(prepared, backend="cuda")
    assert worker_bytes(on_gpus, 3.0) - worker_bytes(prepared, 3.0) == CUDA_CONTEXT_BYTES
    assert forecast(on_gpus).worker_bytes - forecast(prepared).worker_bytes == CUDA_CONTEXT_BYTES
    # However many threads share the process.
    config = ClusterConfig(workers=1, threads=3)
    difference = fit_to_memory(on_gpus, config).worker_bytes - fit_to_memory(prepared, config).worker_bytes
    assert difference == CUDA_CONTEXT_BYTES


def test_running_workers_are_asked_what_they_may_take(prepared):
    worker = {"nthreads": 1, "memory_limit": 0}
    _, notice = require_memory(prepared, {"tcp://a": worker})
    assert notice is None
    with pytest.raises(NotEnoughMemoryError, match=r"tcp://b may take 100 MB: start it with a higher --memory-limit"):
        require_memory(prepared, {"tcp://a": worker, "tcp://b": {"nthreads": 1, "memory_limit": 100_000_000}})
    crowded = {"nthreads": 64, "memory_limit": forecast(prepared).worker_bytes}
    _, notice = require_memory(prepared, {"tcp://a": worker, "tcp://c": crowded})
    assert notice.startswith("1 of 2 workers have more threads than their memory is good for")


def test_frames_that_a_batch_does_not_have_are_not_held_for_recentring(make_archive):
    archive = make_archive(n_frames=30)
    one, all_there_are, more = (
        worker_bytes(prepare(RunOptions(archive.path, recentre=frames)), 1) for frames in (1, 30, 30_000)
    )
    assert one < all_there_are == more


def test_a_common_mode_takes_memory_for_what_it_leaves_of_the_frames(prepared):
    rows, columns = prepared.archive.frame_shape
    parameters = FinderParameters(common_mode=CommonMode.parse("row"))
    with_common_mode = replace(prepared, options=replace(prepared.options, parameters=parameters))
    assert worker_bytes(with_common_mode, 1) - worker_bytes(prepared, 1) == 64 * rows * columns * 8
