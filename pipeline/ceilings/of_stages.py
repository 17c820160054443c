"""Which ceiling each stage of a run is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from pipeline.ceilings.machine import cache_bytes
from pipeline.ceilings.measured import PAGE_FAULTS, Ceilings
from pipeline.ceilings.subject import Subject
from roofline import Ceiling, StageUse, binding
from roofline.accounting import StageCeiling
from roofline.stencil import finder_operations, finder_traffic

_STATE_BYTES = 2 + 2 * 4  # Of a pixel: X0, and two float32 of the running pedestal.


@dataclass(frozen=True)
class RunCeilings:
    """The ceilings of one run.

    Args:
        measured: What this machine does; None if that was not measured, or the workers are elsewhere.
        subject: The run's archive and dataset.
        workers: Worker threads, which share what the machine does.
        block_frames: Frames that the finder is given at a time.
        on_gpus: Whether a GPU finds.
    """

    measured: Ceilings | None
    subject: Subject
    workers: int
    block_frames: int
    on_gpus: bool = False

    def of(self, uses: Sequence[StageUse]) -> tuple[StageCeiling, ...]:
        """The ceiling of each stage."""
        return tuple(self._of(use) for use in uses)

    @property
    def seconds_a_fault(self) -> float:
        """What a minor page fault costs a worker, in s; NaN if that was not measured."""
        faults_a_second = self._share(PAGE_FAULTS)
        return math.nan if faults_a_second is None else 1 / faults_a_second

    def _of(self, use: StageUse) -> StageCeiling:
        if use.name == "read":
            return self._reading(use)
        if use.name == "find":
            # A frame crosses the bus once, as it is stored; what a GPU computes of it takes less.
            return StageCeiling("H2D, pinned", self._share("H2D, pinned")) if self.on_gpus else self._finding()
        name = self.subject.write() if use.name == "write" else self.subject.decode(apart=use.name == "decode")
        return StageCeiling(name, self._share(name))

    def _reading(self, use: StageUse) -> StageCeiling:
        """What is read faster than the storage can comes from the page cache, and so keeps a core busy."""
        cold, warm = self.subject.read(cold=True), self.subject.read(cold=False)
        storage = self._share(cold)
        if storage is None or use.bytes_a_second > storage:
            return StageCeiling(warm, self._share(warm))
        return StageCeiling(cold, storage, "storage")

    def _finding(self) -> StageCeiling:
        """The higher of the floors that arithmetic and memory set for a frame.

        The pedestal crosses between memory and cache once a frame, or once a block of frames where it fits into the
        cache.
        """
        rates = {name: self._share(name) for name in ("float32", "memory triad")}
        operations_a_second, bytes_a_second = rates["float32"], rates["memory triad"]
        if operations_a_second is None or bytes_a_second is None:
            return StageCeiling("float32 and memory", None)
        archive, parameters = self.subject.archive, self.subject.parameters
        y, x = archive.frame_shape
        in_cache = y * x * _STATE_BYTES + archive.frame_nbytes <= (cache_bytes() or math.inf)
        traffic = finder_traffic(
            (y, x),
            frame_itemsize=archive.dtype.itemsize,
            n_states=2 if parameters.noise == "running" else 1,
            frames_a_pass=self.block_frames if in_cache else 1,
        )
        floor = binding(
            {"float32": float(y * x * finder_operations(parameters.cluster_size)), "memory triad": traffic.nbytes},
            (
                Ceiling("float32", "compute", operations_a_second),
                Ceiling("memory triad", "memory", bytes_a_second),
            ),
        )
        return StageCeiling(floor.ceiling.name, archive.frame_nbytes / floor.seconds)

    def _share(self, name: str) -> float | None:
        return None if self.measured is None else self.measured[name].share(self.workers)


def all_here(addresses: Iterable[str]) -> bool:
    """Whether all these Dask workers are on this machine, whose ceilings are known."""
    here = {address.address for interface in psutil.net_if_addrs().values() for address in interface}
    return all(address.startswith("inproc:") or urlsplit(address).hostname in here for address in addresses)
