"""Workers that have a GPU each: processes of this machine that see no other, near the cores that lie next to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Scheduler, Security, SpecCluster, Worker, WorkerPlugin

from gpu.nearest_cores import NearestCores, nearest_cores
from gpu.nvml import NoDriverError, ask_driver
from gpu.visible import VARIABLE, VisibleGpu, visible_gpus
from pipeline.ceilings.machine import cores
from pipeline.workers.patient_nanny import PatientNanny

PLACE = "photonflow-gpu-place"


@dataclass(frozen=True)
class GpuPlace(WorkerPlugin):
    """Keeps a worker on the cores nearest to its GPU.

    Args:
        cores: The cores; threads that begin from now on stay on them.
        decode_threads: How many of them are this worker's share, for decoding frames.
    """

    cores: frozenset[int]
    decode_threads: int

    name = PLACE

    def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker's process, before its first task."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.cores)


def gpu_cluster(
    gpus: Sequence[VisibleGpu],
    *,
    streams: int,
    scheduler_options: Mapping[str, Any],
    worker_options: Mapping[str, Any],
    security: Security | None,
    silence_logs: int,
) -> SpecCluster:
    """Start a worker for each GPU.

    Args:
        gpus: The GPUs.
        streams: Batches at work at once on each, a thread each.
        scheduler_options: Of Dask's Scheduler.
        worker_options: Of Dask's Nanny, the same for all.
        security: What Dask is told of encryption.
        silence_logs: The lowest level that Dask logs.
    """
    security = security or Security()
    protocol = "tls://" if security.require_encryption else "tcp://"
    common = {**worker_options, "security": security, "protocol": protocol, "silence_logs": silence_logs}
    workers = {
        index: {"cls": PatientNanny, "options": {**common, "nthreads": streams, **worker_of(gpu, near)}}
        for index, (gpu, near) in enumerate(zip(gpus, nearest_cores(gpus), strict=True))
    }
    scheduler = {"cls": Scheduler, "options": {**scheduler_options, "security": security, "protocol": protocol}}
    return SpecCluster(workers=workers, scheduler=scheduler, security=security, silence_logs=silence_logs)


def worker_of(gpu: VisibleGpu, near: NearestCores) -> dict[str, Any]:
    """What makes a worker the one of a GPU: the only one that it sees, as its device 0."""
    return {"env": {VARIABLE: gpu.entry}, "plugins": (GpuPlace(near.cores, near.decode_threads),)}


def decode_threads(worker: Worker) -> int:
    """Threads that decode frames on a worker with a GPU, at least one for each of its streams.

    A worker of somebody else's (of dask-cuda's, of a batch system's) is not told its share: it has the cores that it
    may use, over the GPUs that it sees, of which it uses the first.
    """
    place = worker.plugins.get(PLACE)
    if isinstance(place, GpuPlace):
        share = place.decode_threads
    else:
        try:
            seen = len(visible_gpus(ask_driver().gpus, os.environ))
        except NoDriverError:
            seen = 1
        share = cores() // max(seen, 1)
    return max(share, int(worker.state.nthreads))
