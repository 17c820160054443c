"""Why a task failed, and what that means for its batch and for the run."""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from distributed import Future, KilledWorker

from cluster_store import FrameStatus
from finder.rounding import SignalRangeError
from pipeline.batches.plan import Batch
from pipeline.batches.reports import BatchReport, BatchWrite
from pipeline.errors import BatchError, ChangedResultError, ClusterUnavailableError, OutputError, RunError
from pipeline.faults import status_of
from pipeline.workers.cluster_watch import ClusterWatch
from pipeline.workers.deaths import DeathsByTask

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Why a task failed.

    Args:
        error: What to raise where it ends the run.
        status: What becomes of the batch's frames where it doesn't; None if it is not the batch that is to blame.
        cause: The cause alone, in words.
    """

    error: RunError
    status: FrameStatus | None
    cause: str


def reported(future: Future[Any], watch: ClusterWatch) -> BatchReport | BatchWrite | None:
    """What a task that is done reports; None if it failed.

    Raises:
        ClusterUnavailableError: The cluster does not hand it over.
    """
    if future.status != "finished":
        return None
    try:
        report: BatchReport | BatchWrite = watch.report(future)
    except KilledWorker:
        # Its worker ended after all, with the report, and so did those that made it anew.
        return None
    except (OSError, CancelledError) as error:
        raise ClusterUnavailableError(f"{watch.name} went away: {error}") from error
    return report


def failure(step: str, batch: Batch, future: Future[Any], watch: ClusterWatch, deaths: DeathsByTask) -> Failure:
    """Tell why a task of a batch failed, from its future."""
    if future.status == "cancelled":
        gone = ClusterUnavailableError(f"{watch.name} went away while {batch} was at work")
        return Failure(gone, None, "")
    cause = future.exception()
    logger.info("%s failed at step %s", batch, step, exc_info=cause)
    if isinstance(cause, OutputError | ChangedResultError):
        return Failure(cause, None, "")
    if isinstance(cause, SignalRangeError):
        # Not the batch's fault, and no other try helps: the run was asked for what can't be.
        return Failure(
            RunError(
                f"a signal of {batch} does not fit int32, as which it is stored, or counted for --products: run again "
                "with --signal-dtype float32 and without --products, with --overwrite"
            ),
            None,
            "",
        )
    if isinstance(cause, KilledWorker):
        sentence = deaths.sentence(cause, watch.hung)
        return Failure(BatchError(f"{batch} {sentence}"), FrameStatus.FAILED, f"it {sentence}")
    return Failure(BatchError(f"{batch} failed: {str(cause).rstrip('.')}"), status_of(cause), str(cause))
