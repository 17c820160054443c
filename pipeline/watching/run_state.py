"""How far a run is, as its client tells the scheduler once a second: plain values, small enough to be sent so often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from roofline.accounting import StageBar


@dataclass(frozen=True)
class RunDescription:
    """What a run is, from its beginning.

    Args:
        run_id: Its id.
        name: What a person calls it: the name of its dataset.
        archive: Path of the frame archive.
        out: Path of the dataset.
        backend: Which finder.
        began: When its first batch was handed out, in s since 1970.
        frames: Frames in all.
        batches: Batches in all.
        frames_kept: Frames of an earlier run that are in the dataset already.
        clusters_kept: Clusters in them.
        batches_kept: Batches of them.
        client: The id of the client that the run belongs to, as the scheduler knows it.
    """

    run_id: str
    name: str
    archive: str
    out: str
    backend: str
    began: float
    frames: int
    batches: int
    frames_kept: int = 0
    clusters_kept: int = 0
    batches_kept: int = 0
    client: str = ""


@dataclass(frozen=True)
class StageState:
    """What a stage did so far, against what it could have done.

    Args:
        name: The stage.
        seconds: Worker-seconds in it.
        nbytes: Bytes.
        ceiling: What limits it, in words.
        floor_seconds: What it would have taken at its ceiling; NaN if that was not measured.
        within: The stage that it passes within, and whose time it is a part of; "" for one that stands by itself.
    """

    name: str
    seconds: float
    nbytes: int
    ceiling: str
    floor_seconds: float
    within: str = ""

    @staticmethod
    def of(bar: StageBar) -> StageState:
        """A stage against its ceiling."""
        return StageState(
            bar.name, bar.seconds, bar.use.nbytes, bar.ceiling.name, bar.floor_seconds, bar.use.within or ""
        )

    @property
    def share_of_ceiling(self) -> float:
        """How much of its ceiling was reached; NaN if that was not measured."""
        return self.floor_seconds / self.seconds if self.seconds > 0 else math.nan


@dataclass(frozen=True)
class WorkerTotals:
    """What a worker did in a run so far.

    Args:
        frames: Frames that it found the clusters of.
        clusters: Those clusters.
        batches: Batches.
        busy_seconds: Time that its threads were at them, reading, finding and writing, in s.
    """

    frames: int = 0
    clusters: int = 0
    batches: int = 0
    busy_seconds: float = 0.0


@dataclass(frozen=True)
class RunState:
    """How far a run is.

    Args:
        frames: Frames done, those of an earlier run among them.
        clusters: Clusters in them.
        batches: Batches done, likewise; those that were skipped too.
        skipped: Batches that were given up.
        failures: Tasks that failed after all their tries.
        offset: Of the pedestal before the batch found last, in noise widths; NaN before the first.
        movement: Of the pedestal within it.
        idle_seconds: How long worker threads had nothing to do, in s.
        stages: What each stage did.
        binds: The stage in which most time went; "" before any did something.
        workers: What each worker did, by its name.
        seconds: How long the run took by its account, in s; 0 before there is one.
        outcome: How the run ended: ``complete``, ``stopped`` or ``failed``; "" while it goes on.
        message: Why, in words.
    """

    frames: int = 0
    clusters: int = 0
    batches: int = 0
    skipped: int = 0
    failures: int = 0
    offset: float = math.nan
    movement: float = math.nan
    idle_seconds: float = 0.0
    stages: tuple[StageState, ...] = ()
    binds: str = ""
    workers: Mapping[str, WorkerTotals] = field(default_factory=dict)
    seconds: float = 0.0
    outcome: str = ""
    message: str = ""

    def as_message(self) -> dict[str, Any]:
        """What is sent."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """What was sent."""
        stages = tuple(StageState(**stage) for stage in message["stages"])
        workers = {str(name): WorkerTotals(**totals) for name, totals in message["workers"].items()}
        return cls(**{**message, "stages": stages, "workers": workers})
