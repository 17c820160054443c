"""Whether the workers of a run fit into the memory that there is, asked before the run begins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT

from gpu.chunk_plan import ChunkPlan, kind_for
from gpu.memory_plan import finder_memory
from gpu.settings import GpuSettings
from pipeline.batches.block_sizes import BUFFERS, GPU_BLOCK_BYTES
from pipeline.checks.forecast import dense_worker_bytes, forecast, process_bytes, worker_bytes
from pipeline.errors import NotEnoughMemoryError
from pipeline.preparation import PreparedRun
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.memory import MemoryThereIs, bytes_in_words, memory_there_is

logger = logging.getLogger(__name__)

MOST_PINNED = 0.4
"""The share of memory that may be page-locked: the system can't use it for files or anything else."""

_SMALLER_BATCHES = "use a smaller --batch-size (which is part of the result)"


@dataclass(frozen=True)
class SizedCluster:
    """Workers that fit.

    Args:
        config: What was asked for, with as many workers as fit and, where that was left open, what each may take.
        worker_bytes: What a worker is expected to need at most.
        there_is: The memory that there is.
        notice: What the user should know, if it isn't what was asked for.
    """

    config: ClusterConfig
    worker_bytes: int
    there_is: MemoryThereIs
    notice: str | None = None


def fit_to_memory(prepared: PreparedRun, config: ClusterConfig) -> SizedCluster:
    """As many of the workers that ``config`` asks for on this machine as there is memory for.

    Raises:
        NotEnoughMemoryError: Not even one fits.
    """
    there_is = memory_there_is()
    if not config.is_local or config.adaptive is not None:
        return SizedCluster(config, _expected_bytes(prepared, there_is.available, 1), there_is)
    asked = config.n_workers
    pinned = pinned_bytes_a_worker(prepared, config)
    if asked * pinned > MOST_PINNED * there_is.total:
        raise NotEnoughMemoryError(
            f"{asked} GPU{'s' * (asked != 1)} with {config.threads_a_worker} streams each would page-lock "
            f"{bytes_in_words(asked * pinned)} of the {bytes_in_words(there_is.total)} of memory, and more than "
            f"{MOST_PINNED:.0%} leave too little to everything else: use fewer --streams or --gpus"
        )
    needed = pinned + _expected_bytes(prepared, there_is.available // asked, config.threads_a_worker)
    limit = None if config.memory_limit == "auto" else int(parse_bytes(config.memory_limit))
    if limit is not None and needed > limit:
        raise NotEnoughMemoryError(
            f"a worker needs up to about {bytes_in_words(needed)} and its memory_limit is {bytes_in_words(limit)}: "
            f"raise that, or {_SMALLER_BATCHES}"
        )
    workers = min(asked, there_is.available // needed)
    if workers < asked and config.kind == "local-gpu":
        raise NotEnoughMemoryError(
            f"{asked} workers with a GPU each need up to about {bytes_in_words(needed)} each, and "
            f"{there_is.limited_by} has {bytes_in_words(there_is.available)} to spare: use fewer --streams or --gpus, "
            f"or {_SMALLER_BATCHES}"
        )
    if workers < 1:
        raise NotEnoughMemoryError(
            f"a worker needs up to about {bytes_in_words(needed)} and {there_is.limited_by} has "
            f"{bytes_in_words(there_is.available)} to spare: free some memory, or {_SMALLER_BATCHES}"
        )
    notice = None
    if workers < asked:
        notice = (
            f"starting {workers} worker{'s' * (workers != 1)} instead of {asked}: each needs up to about "
            f"{bytes_in_words(needed)}, and {there_is.limited_by} has {bytes_in_words(there_is.available)} to spare"
        )
    # Dask's own idea of what there is leaves out the cgroups inside the outermost one.
    share = limit or min(MEMORY_LIMIT, there_is.total) // workers
    sized = replace(config, memory_limit=str(share))
    if config.kind == "local-cpu":
        sized = replace(sized, workers=workers)
    return SizedCluster(sized, needed, there_is, notice)


def require_memory(prepared: PreparedRun, workers: Mapping[str, Mapping[str, Any]]) -> tuple[int, str | None]:
    """Check what workers that run already may take against what a batch needs.

    Args:
        prepared: The run.
        workers: What Dask's scheduler says of each worker, by address.

    Returns:
        What a worker of one thread is expected to need, and what the user should know, if anything.

    Raises:
        NotEnoughMemoryError: A worker may not take what a single batch needs.
    """
    limits = {address: int(worker["memory_limit"] or 0) for address, worker in workers.items()}
    limited = [limit // workers[address]["nthreads"] for address, limit in limits.items() if limit]
    needed = _expected_bytes(prepared, min(limited, default=MEMORY_LIMIT), 1)
    crowded = 0
    for address, limit in limits.items():
        threads = workers[address]["nthreads"]
        if limit and needed > limit:
            raise NotEnoughMemoryError(
                f"a batch needs up to about {bytes_in_words(needed)} and the worker at {address} may take "
                f"{bytes_in_words(limit)}: start it with a higher --memory-limit, or {_SMALLER_BATCHES}"
            )
        crowded += bool(limit) and _with_threads(prepared, needed, threads) > limit
    if not crowded:
        return needed, None
    further = bytes_in_words(needed - process_bytes(prepared))
    return needed, (
        f"{crowded} of {len(workers)} workers have more threads than their memory is good for at about "
        f"{bytes_in_words(needed)} for the first and {further} for each further one: "
        "should they run out of memory, start them with fewer threads"
    )


def pinned_bytes_a_worker(prepared: PreparedRun, config: ClusterConfig) -> int:
    """What a worker page-locks: its finder's staging memory, and two blocks of frames a stream that are read ahead."""
    if config.kind != "local-gpu":
        return 0
    archive, streams, parameters = prepared.archive, config.threads_a_worker, prepared.options.parameters
    plan = ChunkPlan(
        parameters, archive.frame_shape, kind_for(parameters, archive.dtype), GpuSettings(n_streams=streams)
    )
    staging = finder_memory(plan).pinned
    start, stop = next(iter(archive.blocks(0, archive.n_frames, max_bytes=GPU_BLOCK_BYTES)))
    return staging + streams * BUFFERS * (stop - start) * archive.frame_nbytes


def _expected_bytes(prepared: PreparedRun, enough: int, threads: int) -> int:
    """What a worker needs at most; clusters are counted in some frames only where even many might be too many."""
    dense = _with_threads(prepared, dense_worker_bytes(prepared), threads)
    if dense <= enough:
        return dense
    try:
        needed = forecast(prepared).worker_bytes
    except (ValueError, OSError) as error:
        # Frames that can't be read are the run's to tell of, or to skip.
        logger.info("the first frames tell nothing of the memory to be needed: %s", error)
        needed = worker_bytes(prepared, 0)
    return _with_threads(prepared, needed, threads)


def _with_threads(prepared: PreparedRun, bytes_of_one: int, threads: int) -> int:
    shared = process_bytes(prepared)
    return shared + threads * (bytes_of_one - shared)
