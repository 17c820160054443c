"""Where the time of a run went: each stage against its ceiling, and what lies between the bound and what was reached.

Stages use resources: the storage, or a worker's core. Those of one resource take turns, so their floors (bytes over
ceiling) add up; those of different resources could run side by side. The bound of a run is therefore the resource with
the most floor time, with all else hidden behind it. Time is counted in worker-seconds: with W workers, a run of T
seconds has W · T of them, and every one is in exactly one part of :class:`TimeSplit`.

A GPU's stages are counted in its own seconds. They pass while workers wait for them in a stage of their own, and so are
in none of the sums: they say what that stage waited for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roofline.stage_use import StageUse, json_number

Resource = Literal["storage", "core", "GPU"]

MEASURED_BY = "photonflow roofline measure ARCHIVE"
"""The command that measures ceilings, where the archive isn't known."""

# From this share of a stage on, it is the GPU's work that the stage took that long for.
_OF_A_STAGE = 0.5
# Beyond this share of its ceiling a stage shows that the ceiling was measured too low: repeats scatter by less.
_EXCEEDED = 1.1


@dataclass(frozen=True)
class StageCeiling:
    """The most that one worker can do of a stage.

    Args:
        name: What limits it, as it was measured.
        bytes_a_second: One worker's share while all are at work, B/s; None if that was not measured.
        resource: What the stage keeps busy.
        traffic: Bytes that are moved for each byte that the stage is counted by: of finding, a pixel's share of the
            pedestal besides the pixel.
    """

    name: str
    bytes_a_second: float | None
    resource: Resource = "core"
    traffic: float = 1.0


@dataclass(frozen=True)
class StageBar:
    """A stage of a run against its ceiling.

    Args:
        use: What the stage did.
        ceiling: What it could have done.
    """

    use: StageUse
    ceiling: StageCeiling

    @property
    def name(self) -> str:
        """The stage."""
        return self.use.name

    @property
    def seconds(self) -> float:
        """Worker-seconds in the stage; a GPU's, where it is one of these."""
        return self.use.busy_seconds

    @property
    def floor_seconds(self) -> float:
        """Seconds that the stage would take at its ceiling; NaN if that was not measured.

        What a run reached is possible: a ceiling below that was measured too low, and does not count.
        """
        rate = self.ceiling.bytes_a_second
        return math.nan if rate is None else min(self.use.nbytes / rate, self.seconds)

    @property
    def share_of_ceiling(self) -> float:
        """How much of its ceiling was reached, 1 for all of it; NaN if that was not measured or nothing was done."""
        rate = self.ceiling.bytes_a_second
        return math.nan if rate is None or self.seconds <= 0 else self.use.nbytes / rate / self.seconds

    @property
    def exceeds_ceiling(self) -> bool:
        """Whether the stage was so much faster than its ceiling that this was measured too low."""
        return self.share_of_ceiling > _EXCEEDED


@dataclass(frozen=True)
class TimeSplit:
    """The worker-seconds of a run, in parts that add up to all of them.

    Args:
        start_up: Before the first batch was handed out: workers, the pedestal.
        at_bound: What the busiest resource would have taken at its ceilings; without a bound, stages without a ceiling
            count as they were.
        overlap_lost: What the stages of other resources would have taken at theirs: not hidden behind the first.
        below_ceilings: What the stages took beyond that.
        waiting: Time between a worker's first work and its last in which it was in no stage.
        stragglers: Time of workers that had nothing left to do while others were still at work.
        finishing: After the last batch: tables, metadata.
        has_bound: Whether each stage that did something has a ceiling; else it is only known what the stages took.
    """

    start_up: float
    at_bound: float
    overlap_lost: float
    below_ceilings: float
    waiting: float
    stragglers: float
    finishing: float
    has_bound: bool = True

    @property
    def total(self) -> float:
        """All worker-seconds."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, float]:
        """By name, in the order in which a gap is told; without a bound, what the stages took is one part."""
        stages = {
            "at the bound": self.at_bound,
            "overlap lost": self.overlap_lost,
            "below ceilings": self.below_ceilings,
        }
        return {
            **(stages if self.has_bound else {"in the stages": sum(stages.values())}),
            "start-up": self.start_up,
            "waiting": self.waiting,
            "stragglers": self.stragglers,
            "finishing": self.finishing,
        }


@dataclass(frozen=True)
class PageFaults:
    """First touches of memory over a run.

    Args:
        count: Minor page faults of the workers' tasks.
        seconds_each: What one costs on this machine, in s; NaN if that was not measured.
    """

    count: int
    seconds_each: float = math.nan

    @property
    def seconds(self) -> float:
        """Worker-seconds that they took: wall time is the steady state and this."""
        return self.count * self.seconds_each


@dataclass(frozen=True)
class Account:
    """A run against its bound.

    Args:
        bars: The stages.
        split: Where the time went.
        workers: How many there were.
        frames: How many were done.
        seconds: How long the run took, from the first batch handed out to the end, in s.
        faults: Page faults.
        clusters: How many were found.
        gpus: How many there were.
        batches: In how many batches the frames were; 0 if that is not known.
        measured_by: The command that measures the ceilings of such a run; empty where none does.
    """

    bars: tuple[StageBar, ...]
    split: TimeSplit
    workers: int
    frames: int
    seconds: float
    faults: PageFaults = PageFaults(0)
    clusters: int = 0
    gpus: int = 0
    batches: int = 0
    measured_by: str = MEASURED_BY

    @property
    def tallest(self) -> StageBar | None:
        """The stage in which most time went: what binds the run. None if no stage did anything."""
        return tallest(self.bars, self.workers, self.gpus)

    @property
    def busy_seconds(self) -> float:
        """Worker-seconds in all stages."""
        return sum(bar.seconds for bar in self.bars if bar.use.within is None)

    @property
    def idle_seconds(self) -> float:
        """Worker-seconds in no stage between the first batch and the last."""
        return self.split.waiting + self.split.stragglers

    @property
    def bound_frames_a_second(self) -> float:
        """Frames a second at the bound; NaN if the ceiling of a stage that did something is missing."""
        unknown = not self.split.has_bound or self.split.at_bound <= 0
        return math.nan if unknown else self.workers * self.frames / self.split.at_bound

    @property
    def frames_a_second(self) -> float:
        """What was reached; NaN for a run that took no time."""
        return self.frames / self.seconds if self.seconds > 0 else math.nan

    @property
    def share_of_bound(self) -> float:
        """How much of the bound was reached; NaN without one."""
        return self.frames_a_second / self.bound_frames_a_second

    @property
    def share_of_faults(self) -> float:
        """How much of the stages' time page faults took; NaN if their cost was not measured."""
        return self.faults.seconds / self.busy_seconds if self.busy_seconds > 0 else math.nan

    def as_dict(self) -> dict[str, Any]:
        """The account as JSON-able values; what is not a number is ``None``."""
        return {
            "stages": {
                bar.name: {
                    "busy_seconds": bar.seconds,
                    "nbytes": bar.use.nbytes,
                    "microseconds_a_frame": json_number(bar.use.microseconds_a_frame(self.frames)),
                    "bytes_a_second": json_number(bar.use.bytes_a_second),
                    "ceiling": bar.ceiling.name,
                    "ceiling_bytes_a_second": bar.ceiling.bytes_a_second,
                    "share_of_ceiling": json_number(bar.share_of_ceiling),
                    "exceeds_ceiling": bar.exceeds_ceiling,
                    "resource": bar.ceiling.resource,
                    "bytes_moved": bar.use.nbytes * bar.ceiling.traffic,
                    "within": bar.use.within,
                }
                for bar in self.bars
            },
            "binds": None if self.tallest is None else self.tallest.name,
            "bound_frames_a_second": json_number(self.bound_frames_a_second),
            "frames_a_second": json_number(self.frames_a_second),
            "share_of_bound": json_number(self.share_of_bound),
            "worker_seconds": self.split.parts,
            "idle_seconds": self.idle_seconds,
            "workers": self.workers,
            "gpus": self.gpus,
            "frames": self.frames,
            "batches": self.batches,
            "clusters": self.clusters,
            "seconds": self.seconds,
            "minor_faults": self.faults.count,
            "seconds_a_fault": json_number(self.faults.seconds_each),
            "measured_by": self.measured_by,
        }


def tallest(bars: Sequence[StageBar], workers: int, gpus: int) -> StageBar | None:
    """The stage in which most time went; None if no stage did anything.

    Where that is one in which workers wait for a GPU, and the GPU was at work for most of it, it is the GPU's tallest.
    """
    own = max((bar for bar in bars if bar.seconds > 0 and bar.use.within is None), key=_seconds, default=None)
    within = [bar for bar in bars if own is not None and bar.use.within == own.name]
    if own is None or not within or not gpus:
        return own
    # All workers of a GPU wait at once: a second of it is one of each.
    in_worker_seconds = sum(bar.seconds for bar in within) * workers / gpus
    return max(within, key=_seconds) if in_worker_seconds >= _OF_A_STAGE * own.seconds else own


def _seconds(bar: StageBar) -> float:
    return bar.seconds


def account(
    uses: Sequence[StageUse],
    ceilings: Sequence[StageCeiling],
    *,
    workers: int,
    frames: int,
    seconds: float,
    idle_at_end: Sequence[float],
    startup_seconds: float = 0.0,
    finishing_seconds: float = 0.0,
    faults: PageFaults | None = None,
    clusters: int = 0,
    gpus: int = 0,
    batches: int = 0,
    measured_by: str = MEASURED_BY,
) -> Account:
    """Split the time of a run.

    Args:
        uses: What each stage did, over all workers.
        ceilings: Of each stage, in the same order.
        workers: Worker threads.
        frames: Frames done.
        seconds: From the first batch handed out to the end, in s.
        idle_at_end: For each worker thread, how long before the last batch was done it had done its last work, in s.
        startup_seconds: Before the first batch was handed out.
        finishing_seconds: The part of `seconds` after the last batch was done.
        faults: Page faults.
        clusters: Clusters found.
        gpus: GPUs that were used.
        batches: Batches that the frames were in.
        measured_by: The command that measures such ceilings.

    Raises:
        ValueError: Another number of ceilings than of stages.
    """
    bars = tuple(StageBar(use, ceiling) for use, ceiling in zip(uses, ceilings, strict=True))
    floors: dict[str, float] = {}
    of_workers = [bar for bar in bars if bar.use.within is None]
    for bar in of_workers:
        floor = bar.seconds if math.isnan(bar.floor_seconds) else bar.floor_seconds
        floors[bar.ceiling.resource] = floors.get(bar.ceiling.resource, 0.0) + floor
    at_bound, all_floors = max(floors.values(), default=0.0), sum(floors.values())
    busy = sum(bar.seconds for bar in of_workers)
    working_seconds = max(seconds - finishing_seconds, 0.0)
    # A worker can't have been busy for longer than the run: what clocks say beyond that is not waiting.
    idle = max(workers * working_seconds - busy, 0.0)
    stragglers = min(sum(max(0.0, min(wait, working_seconds)) for wait in idle_at_end), idle)
    split = TimeSplit(
        start_up=workers * startup_seconds,
        at_bound=at_bound,
        overlap_lost=all_floors - at_bound,
        below_ceilings=busy - all_floors,
        waiting=idle - stragglers,
        stragglers=stragglers,
        finishing=workers * min(finishing_seconds, seconds),
        has_bound=not any(math.isnan(bar.floor_seconds) for bar in of_workers if bar.seconds > 0),
    )
    return Account(bars, split, workers, frames, seconds, faults or PageFaults(0), clusters, gpus, batches, measured_by)
