"""What happens in a run, one event at a time: what its log is written from."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cluster_store import FrameStatus
from pipeline.batches.reports import BatchCount, BatchWrite
from pipeline.batches.stage_totals import StageTotals

EventName = Literal[
    "run_began",
    "step",
    "notice",
    "batch_found",
    "batch_written",
    "batch_failed",
    "batch_skipped",
    "batch_tried_again",
    "run_ended",
]


@dataclass(frozen=True)
class RunEvent:
    """Something that happened in a run.

    Args:
        event: What.
        run: Id of the run.
        time: When it was heard of, in s since 1970.
        batch: Index of the batch; None if it is about none.
        worker: Name of the worker that did it.
        seconds: How long it took there, in s.
        frames: Frames of it.
        clusters: Clusters in them.
        nbytes: Bytes written, uncompressed.
        stages: Seconds in each stage, by its name.
        message: In words: a step, a notice, why something failed, how the run ended.
        details: What else is told of the beginning and the end of a run.
    """

    event: EventName
    run: str
    time: float = field(default_factory=time.time)
    batch: int | None = None
    worker: str | None = None
    seconds: float | None = None
    frames: int | None = None
    clusters: int | None = None
    nbytes: int | None = None
    stages: Mapping[str, float] | None = None
    message: str | None = None
    details: Mapping[str, Any] | None = None

    @staticmethod
    def of_count(run: str, count: BatchCount) -> RunEvent:
        """A batch was found, or skipped."""
        if count.status is not FrameStatus.OK:
            return RunEvent(
                "batch_skipped",
                run,
                batch=count.batch.index,
                worker=count.worker,
                frames=count.batch.n_frames,
                clusters=0,
                message=count.cause,
            )
        return RunEvent(
            "batch_found",
            run,
            batch=count.batch.index,
            worker=count.worker,
            seconds=count.ended - count.began,
            frames=count.batch.n_frames,
            clusters=count.n_clusters,
            stages=stages_of(count),
        )

    @staticmethod
    def of_write(run: str, write: BatchWrite) -> RunEvent:
        """Rows of a batch, or a chunk that begins with it, were written."""
        return RunEvent(
            "batch_written", run, batch=write.batch, worker=write.worker, seconds=write.seconds, nbytes=write.nbytes
        )

    def as_json(self) -> dict[str, Any]:
        """What there is to say, as JSON has it."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "details"}
        values |= self.details or {}
        return {name: _plain(value) for name, value in values.items() if value is not None}


OnEvent = Callable[[RunEvent], object]


def stages_of(report: BatchCount | BatchWrite) -> dict[str, float]:
    """Seconds that a report tells of each stage, by the names that the table of stages has."""
    totals = StageTotals()
    if isinstance(report, BatchCount):
        totals.add_count(report)
    else:
        totals.add_write(report)
    return {use.name: use.busy_seconds for use in totals.uses() if use.busy_seconds > 0}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value
