"""Which ceiling each stage of a run is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlsplit

import psutil

from gpu.chunk_plan import kind_for
from pipeline.ceilings.machine import cache_bytes
from pipeline.ceilings.measured import PAGE_FAULTS, Ceilings
from pipeline.ceilings.subject import Subject
from roofline import Ceiling, StageUse, binding
from roofline.accounting import StageBar, StageCeiling
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
        gpus: GPUs that find; 0 where cores do.
        frames_a_launch: Frames that a GPU's kernels take the pedestal through at a time.
    """

    measured: Ceilings | None
    subject: Subject
    workers: int
    block_frames: int
    gpus: int = 0
    frames_a_launch: int = 1

    def of(self, uses: Sequence[StageUse]) -> tuple[StageCeiling, ...]:
        """The ceiling of each stage, by itself or of those that pass within it."""
        within = {use.name: self._on_a_gpu(use) for use in uses if use.within is not None}
        return tuple(within.get(use.name) or self._of(use, uses, within) for use in uses)

    def bars(self, uses: Sequence[StageUse]) -> list[StageBar]:
        """Each stage with its ceiling."""
        return [StageBar(use, ceiling) for use, ceiling in zip(uses, self.of(uses), strict=True)]

    @property
    def seconds_a_fault(self) -> float:
        """What a minor page fault costs a worker, in s; NaN if that was not measured."""
        faults_a_second = self._share(PAGE_FAULTS)
        return math.nan if faults_a_second is None else 1 / faults_a_second

    def _of(self, use: StageUse, uses: Sequence[StageUse], within: Mapping[str, StageCeiling]) -> StageCeiling:
        if use.name == "read":
            return self._reading(use)
        if use.name == "find":
            return self._finding_on_gpus(use, uses, within) if self.gpus else self._finding
        name = self.subject.write() if use.name == "write" else self.subject.decode(apart=use.name == "decode")
        return StageCeiling(name, self._share(name))

    def _reading(self, use: StageUse) -> StageCeiling:
        """What is read faster than the storage can comes from the page cache, and so keeps a core busy."""
        cold, warm = self.subject.read(cold=True), self.subject.read(cold=False)
        storage = self._share(cold)
        if storage is None or use.bytes_a_second > storage:
            return StageCeiling(warm, self._share(warm))
        return StageCeiling(cold, storage, "storage")

    @cached_property
    def _finding(self) -> StageCeiling:
        """The pedestal crosses between memory and cache once a frame, or once a block of frames where it fits there."""
        archive = self.subject.archive
        y, x = archive.frame_shape
        in_cache = y * x * _STATE_BYTES + archive.frame_nbytes <= (cache_bytes() or math.inf)
        rates = {name: self._share(name) for name in ("float32", "memory triad")}
        return self._computing(rates, archive.dtype.itemsize, frames_a_pass=self.block_frames if in_cache else 1)

    def _finding_on_gpus(
        self, use: StageUse, uses: Sequence[StageUse], within: Mapping[str, StageCeiling]
    ) -> StageCeiling:
        """Finding is waiting for the GPU's stages, which can run side by side: the slowest of them sets its floor."""
        floors = {
            other.name: math.nan if (rate := within[other.name].bytes_a_second) is None else other.nbytes / rate
            for other in uses
            if other.name in within
        }
        if not floors or any(map(math.isnan, floors.values())) or not max(floors.values()):
            return StageCeiling("GPU", None, "GPU")
        slowest = max(floors, key=lambda name: floors[name])
        # All workers of a GPU wait at once: a second of it is one of each.
        floor_seconds = floors[slowest] * self.workers / self.gpus
        return StageCeiling(within[slowest].name, use.nbytes / floor_seconds, "GPU")

    def _on_a_gpu(self, use: StageUse) -> StageCeiling:
        """What one GPU does at best, while it is at the stage."""
        if use.name == "kernel":
            rates = {name: self._of_one(name) for name in ("GPU float32", "device memory")}
            kind = kind_for(self.subject.parameters, self.subject.archive.dtype)
            return replace(self._computing(rates, kind.itemsize, self.frames_a_launch), resource="GPU")
        name = f"{use.name}, pinned"
        return StageCeiling(name, self._of_one(name), "GPU")

    def _computing(self, rates: Mapping[str, float | None], itemsize: int, frames_a_pass: int) -> StageCeiling:
        """The higher of the floors that arithmetic (the first rate) and memory (the second) set for a frame.

        Args:
            rates: op/s and B/s, by name.
            itemsize: Bytes of a pixel.
            frames_a_pass: Frames that the pedestal is taken through at a time.
        """
        (arithmetic, operations_a_second), (memory, bytes_a_second) = rates.items()
        parameters, (y, x) = self.subject.parameters, self.subject.archive.frame_shape
        traffic = finder_traffic(
            (y, x),
            frame_itemsize=itemsize,
            n_states=2 if parameters.noise == "running" else 1,
            frames_a_pass=frames_a_pass,
        )
        nbytes = y * x * itemsize
        if operations_a_second is None or bytes_a_second is None:
            name = f"{arithmetic} and {memory.removesuffix(' triad')}"
            return StageCeiling(name, None, traffic=traffic.nbytes / nbytes)
        floor = binding(
            {arithmetic: float(y * x * finder_operations(parameters.cluster_size)), memory: traffic.nbytes},
            (
                Ceiling(arithmetic, "compute", operations_a_second),
                Ceiling(memory, "memory", bytes_a_second),
            ),
        )
        return StageCeiling(floor.ceiling.name, nbytes / floor.seconds, traffic=traffic.nbytes / nbytes)

    def _of_one(self, name: str) -> float | None:
        return None if self.measured is None else self.measured[name].share(1)

    def _share(self, name: str) -> float | None:
        return None if self.measured is None else self.measured[name].share(self.workers)


def all_here(addresses: Iterable[str]) -> bool:
    """Whether all these Dask workers are on this machine, whose ceilings are known."""
    here = {address.address for interface in psutil.net_if_addrs().values() for address in interface}
    return all(address.startswith("inproc:") or urlsplit(address).hostname in here for address in addresses)
