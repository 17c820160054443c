"""The summary of a run: what was done, each stage against its ceiling, and where the time went."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store import FrameStatus
from gpu.chunk_plan import ChunkPlan, kind_for
from pipeline.batches.count_table import column
from pipeline.batches.reports import BatchCount
from pipeline.batches.run_record import RunProgress
from pipeline.batches.stage_totals import StageTotals
from pipeline.ceilings.kept import kept_ceilings
from pipeline.ceilings.of_stages import RunCeilings, all_here
from pipeline.ceilings.subject import Subject
from pipeline.errors import RunError
from pipeline.preparation import BLOCK_BYTES, PreparedRun, chain_options
from pipeline.resuming.remaining import Remaining
from roofline import ThroughputSummary
from roofline.accounting import Account, PageFaults, account, tallest
from roofline.advice import advice

Workers = Mapping[str, Mapping[str, Any]]
"""What the scheduler says of each worker, by address."""


@dataclass(frozen=True)
class RunTimes:
    """When a run came to what.

    Args:
        began: ``time.perf_counter()`` when the user's wait began.
        submitted: When the first batch was handed out.
        done: When the last batch had been written.
        done_at: The same, in s since 1970, to be compared with what workers say.
    """

    began: float
    submitted: float
    done: float
    done_at: float


def ceilings_of(prepared: PreparedRun, workers: Workers) -> RunCeilings:
    """What the stages of a run are compared with: what was measured on this machine, if the workers are on it."""
    subject = Subject(prepared.archive, prepared.layout, prepared.out, prepared.options.parameters, prepared.pixel_mask)
    measured = kept_ceilings() if all_here(workers) else None
    # Small frames fit there by the thousand: a batch, from which on the pedestal begins anew, may be shorter.
    block_frames = max(1, min(BLOCK_BYTES // prepared.archive.frame_nbytes, prepared.plan.batch_size))
    on_gpus = prepared.backend == "cuda"
    return RunCeilings(
        measured,
        subject,
        _threads(workers),
        block_frames,
        gpus=len(workers) if on_gpus else 0,
        frames_a_launch=_frames_a_launch(prepared) if on_gpus else 1,
    )


def with_tallest(on_progress: Callable[[RunProgress], None], ceilings: RunCeilings) -> Callable[[RunProgress], None]:
    """Tell with the progress of a run the stage in which most time went so far, against its ceiling."""

    def told(progress: RunProgress) -> None:
        bars = ceilings.bars(progress.uses)
        on_progress(replace(progress, tallest=tallest(bars, ceilings.workers, ceilings.gpus)))

    return told


def require_all_read(prepared: PreparedRun, found: Sequence[BatchCount], totals: StageTotals) -> None:
    """Make sure that the bytes that the workers read are those that the archive has for the frames found.

    That the clusters add up is checked where the dataset is finished.

    Raises:
        RunError: They aren't.
    """
    chains = chain_options(prepared)
    frames = sum(count.batch.stop - chains.first_of(count.batch) for count in found if count.status is FrameStatus.OK)
    if (expected := frames * prepared.archive.frame_nbytes) != totals.read_bytes:
        raise RunError(
            f"a fault in photonflow: the workers read {totals.read_bytes} bytes of frames where "
            f"{prepared.archive.address.path} has {expected}"
        )


def account_of(
    found: Sequence[BatchCount], totals: StageTotals, ceilings: RunCeilings, workers: Workers, times: RunTimes
) -> Account:
    """Where the time of a run went, up to now.

    Of a worker with several threads it is known only when the last of them had ended its work.
    """
    now, uses = time.perf_counter(), totals.uses()
    seconds = times.done - times.submitted
    idle_at_end = [
        times.done_at - totals.last_ended.get(str(worker["name"]), times.done_at - seconds)
        for worker in workers.values()
        for _ in range(worker["nthreads"])
    ]
    return account(
        uses,
        ceilings.of(uses),
        workers=ceilings.workers,
        frames=int(column(found, "batch.n_frames")[column(found, "status") == FrameStatus.OK].sum()),
        seconds=now - times.submitted,
        idle_at_end=idle_at_end,
        startup_seconds=times.submitted - times.began,
        finishing_seconds=now - times.done,
        faults=PageFaults(totals.minor_faults, ceilings.seconds_a_fault),
        clusters=int(column(found, "n_clusters").sum()),
        gpus=ceilings.gpus,
        batches=len(found),
        measured_by=ceilings.subject.measured_by(),
    )


def throughput_attribute(account: Account, ceilings: RunCeilings, times: RunTimes) -> str:
    """What a dataset keeps of the account, of the ceilings it was made with, and since when it counts, as JSON.

    ``handed_out`` is when the first batch was, in s since 1970.
    """
    measured = None if ceilings.measured is None else ceilings.measured.as_json()
    handed_out = times.done_at - (times.done - times.submitted)
    kept = {"advice": advice(account), **account.as_dict(), "handed_out": handed_out, "ceilings": measured}
    return json.dumps(kept, allow_nan=False)


def summarised(
    counts: Sequence[BatchCount],
    found: Sequence[BatchCount],
    left: Remaining,
    account: Account,
    times: RunTimes,
    gain_bits: int = 0,
) -> ThroughputSummary:
    """What this run did: of batches that an earlier one had done, only how the pedestal fared counts."""
    return ThroughputSummary(
        frames=int(column(found, "batch.n_frames").sum()),
        clusters=account.clusters,
        batches=len(found),
        workers=account.workers,
        seconds=account.seconds,
        startup_seconds=times.submitted - times.began,
        account=account,
        movement=_largest(column(counts, "movement")),
        offset=_largest(column(counts, "offset.median")),
        pixels_off=_largest(column(counts, "offset.pixels_off")),
        from_darks=_largest(column(counts, "health.from_darks.median")),
        seldom_updated=_largest(column(counts, "health.seldom_updated")),
        often_firing=int(column(counts, "health.often_firing").max(initial=0)),
        often_blind=int(column(counts, "health.often_blind").max(initial=0)),
        hot=int(column(counts, "health.hot").max(initial=0)),
        gain_bits=gain_bits,
        switched_values=int(column(counts, "switched_values").sum()),
        frames_lost=int(column(counts, "batch.n_frames")[column(counts, "status") != FrameStatus.OK].sum()),
        frames_kept=sum(count.batch.n_frames for count in left.kept.values()),
    )


def nothing_done(prepared: PreparedRun, workers: int, startup_seconds: float) -> ThroughputSummary:
    """The summary of a run that found its dataset complete."""
    return ThroughputSummary(
        frames=0,
        clusters=0,
        batches=0,
        workers=workers,
        seconds=0.0,
        startup_seconds=startup_seconds,
        account=account(
            (), (), workers=workers, frames=0, seconds=0.0, idle_at_end=(), startup_seconds=startup_seconds
        ),
        movement=math.nan,
        offset=math.nan,
        pixels_off=math.nan,
        frames_kept=prepared.plan.n_frames,
    )


def _frames_a_launch(prepared: PreparedRun) -> int:
    parameters, archive = prepared.options.parameters, prepared.archive
    plan = ChunkPlan(parameters, archive.frame_shape, kind_for(parameters, archive.dtype))
    return plan.chunk.frames_a_launch


def _threads(workers: Workers) -> int:
    return sum(int(worker["nthreads"]) for worker in workers.values())


def _largest(values: npt.NDArray[np.float64]) -> float:
    """The value of the largest size, with its sign."""
    finite = values[np.isfinite(values)]
    return float(finite[np.abs(finite).argmax()]) if finite.size else math.nan
