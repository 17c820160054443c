"""Where the time of a run went: each stage against its ceiling, and what lies between the bound and what was reached.

A worker thread reads, decodes, finds and writes one after the other, so the stages of one frame add up on its core, and
the bound of a run is the number of workers over the sum of the stages' floors. Time is counted in worker-seconds: with W
workers, a run of T seconds has W · T of them, and every one is in exactly one of the parts below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.throughput import StageUse


@dataclass(frozen=True)
class StageCeiling:
    """The most that one worker can do of a stage.

    Args:
        name: What limits it, as it was measured.
        bytes_a_second: One worker's share while all are at work, B/s; None if that was not measured.
    """

    name: str
    bytes_a_second: float | None


@dataclass(frozen=True)
class StageBar:
    """A stage of a run against its ceiling.

    Args:
        use: What the stage did.
        ceiling: What it could have done.
        frames: Frames of the run.
    """

    use: StageUse
    ceiling: StageCeiling
    frames: int

    @property
    def seconds(self) -> float:
        """Worker-seconds in the stage."""
        return self.use.busy_seconds

    @property
    def floor_seconds(self) -> float:
        """Worker-seconds that the stage would take at its ceiling; NaN if that was not measured."""
        rate = self.ceiling.bytes_a_second
        return math.nan if rate is None else self.use.nbytes / rate

    @property
    def share_of_ceiling(self) -> float:
        """How much of its ceiling the stage reached, 1 for all of it; NaN if that was not measured or it did nothing."""
        return self.floor_seconds / self.seconds if self.seconds > 0 else math.nan


@dataclass(frozen=True)
class TimeSplit:
    """The worker-seconds of a run, in parts that add up to all of them.

    Args:
        at_ceilings: What the stages would have taken at their ceilings; those without one count as they were.
        below_ceilings: What they took beyond that. Negative where a stage was faster than what was measured.
        stragglers: Workers that had nothing left to do while others were still at work.
        waiting: All other time in which a worker was in no stage: waiting for tasks, and what is not in any stage.
    """

    at_ceilings: float
    below_ceilings: float
    stragglers: float
    waiting: float

    @property
    def total(self) -> float:
        """All worker-seconds."""
        return self.at_ceilings + self.below_ceilings + self.stragglers + self.waiting


@dataclass(frozen=True)
class Account:
    """A run against its bound.

    Args:
        bars: The stages.
        split: Where the time went.
        workers: How many there were.
        frames: How many were done.
        seconds: How long the run took, without starting up, in s.
    """

    bars: tuple[StageBar, ...]
    split: TimeSplit
    workers: int
    frames: int
    seconds: float

    @property
    def tallest(self) -> StageBar | None:
        """The stage in which most time went: what binds the run. None if no stage did anything."""
        return max((bar for bar in self.bars if bar.seconds > 0), key=lambda bar: bar.seconds, default=None)

    @property
    def bound_frames_a_second(self) -> float:
        """Frames a second with every stage at its ceiling and no worker ever idle; NaN if some ceiling is missing."""
        floor = sum(bar.floor_seconds for bar in self.bars)
        return self.workers * self.frames / floor if floor > 0 else math.nan

    @property
    def share_of_bound(self) -> float:
        """How much of the bound was reached; NaN without one."""
        reached = self.frames / self.seconds if self.seconds > 0 else math.nan
        return reached / self.bound_frames_a_second


def account(
    uses: Sequence[StageUse],
    ceilings: Sequence[StageCeiling],
    *,
    workers: int,
    frames: int,
    seconds: float,
    idle_at_end: Sequence[float],
) -> Account:
    """Split the time of a run.

    Args:
        uses: What each stage did, over all workers.
        ceilings: Of each stage, in the same order.
        workers: Worker threads.
        frames: Frames done.
        seconds: From the first batch handed out to the last byte written, in s.
        idle_at_end: For each worker thread, how long before the end it had done its last work, in s.

    Raises:
        ValueError: Another number of ceilings than of stages.
    """
    bars = tuple(StageBar(use, ceiling, frames) for use, ceiling in zip(uses, ceilings, strict=True))
    floors = sum(bar.seconds if math.isnan(bar.floor_seconds) else bar.floor_seconds for bar in bars)
    busy = sum(bar.seconds for bar in bars)
    # A worker can't have been busy for longer than the run: what clocks say beyond that is not waiting.
    idle = max(workers * seconds - busy, 0.0)
    stragglers = min(sum(max(0.0, min(wait, seconds)) for wait in idle_at_end), idle)
    split = TimeSplit(floors, busy - floors, stragglers, idle - stragglers)
    return Account(bars, split, workers, frames, seconds)
