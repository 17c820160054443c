"""What there is to be done of a run, and what its tasks have reported so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cluster_store import FrameStatus
from pipeline.batches.count_table import CountTable, KnownCounts
from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount, BatchWrite
from pipeline.batches.stage_totals import StageTotals
from roofline import StageUse
from roofline.accounting import StageBar


@dataclass(frozen=True)
class Work:
    """What there is to be done of a run.

    Args:
        run_id: The run, as the workers' plugin knows it.
        plan: All its batches.
        rows_per_chunk: Rows in a chunk of the dataset.
        to_find: The batches to be found, in order.
        kept: What is known of all others, whose rows lie in the dataset already.
        expected: What was known of some of those to be found: their rows have places that can't change any more.
        on_bad_batch: ``fail`` stops at the first batch that fails, ``skip`` marks its frames and goes on.
        chained: Whether each batch starts where the last good one before it ended.
        cluster_list: Whether clusters are written, and not only counted.
        window: Batches in flight a worker thread.
        ahead: Batches in flight a worker beyond those that its threads are at; None: as many as `window` makes them.
    """

    run_id: str
    plan: BatchPlan
    rows_per_chunk: int
    to_find: Sequence[int]
    kept: Mapping[int, BatchCount] = field(default_factory=dict)
    expected: Mapping[int, BatchCount] = field(default_factory=dict)
    on_bad_batch: Literal["fail", "skip"] = "fail"
    chained: bool = False
    cluster_list: bool = True
    window: int = 2
    ahead: int | None = None

    def in_flight(self, workers: int, threads: int) -> int:
        """Batches that may be in flight at once on so many workers with so many threads in all."""
        if self.chained:
            return 1
        if self.ahead is None:
            return self.window * max(threads, 1)
        return max(threads + self.ahead * workers, 1)


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come: what everything that watches one is told."""

    frames: int
    frames_total: int
    clusters: int
    batches: int
    offset: float = math.nan
    """Of the pedestal before the batch that was last found, median over pixels, in noise widths."""
    uses: tuple[StageUse, ...] = ()
    """What this run's stages did so far, over all workers."""
    idle_seconds: float = 0.0
    """How long workers had to wait for work, in s."""
    tallest: StageBar | None = None
    """The stage in which most time went, against its ceiling."""
    skipped: int = 0
    """Batches that were given up; they are among `batches`."""
    frames_before: int = 0
    """How many of the frames an earlier run had gone through."""
    clusters_before: int = 0
    """How many of the clusters were in those."""
    movement: float = math.nan
    """Of the pedestal within the batch that was last found, median over pixels, in noise widths."""


class RunRecord:
    """What the tasks of a run reported.

    Attributes:
        counts: Of each batch, once it is known.
        write_seconds: (batch) how long its own rows and the chunks that begin with them took to be written;
            NaN where nothing was written by this run.
        write_ended: (batch) when that had been done, in s since 1970; NaN likewise.
        write_faults: (batch) minor page faults of it.
        frames_before: Frames of batches that an earlier run had done.
        clusters_before: Clusters of those.
        totals: What the stages of this run did.
        n_clusters: Clusters in all batches known so far.
    """

    def __init__(self, work: Work) -> None:
        n = len(work.plan)
        self.counts = CountTable(work.plan)
        for count in work.kept.values():
            self.counts.put(count)
        self.write_seconds = np.full(n, np.nan)
        self.write_ended = np.full(n, np.nan)
        self.totals = StageTotals()
        self.write_faults = np.zeros(n, np.uint64)
        self.clusters_before = self.n_clusters = sum(count.n_clusters for count in work.kept.values())
        self.frames_before = self.frames_found = sum(count.batch.n_frames for count in work.kept.values())
        self.batches_found = len(work.kept)
        self.batches_skipped = sum(count.status is not FrameStatus.OK for count in work.kept.values())

    def add(self, count: BatchCount) -> None:
        """Take down what is known of a batch that was found or skipped."""
        self.counts.put(count)
        self.totals.add_count(count)
        self.batches_found += 1
        self.batches_skipped += count.status is not FrameStatus.OK
        self.frames_found += count.batch.n_frames
        self.n_clusters += count.n_clusters

    def add_write(self, write: BatchWrite) -> None:
        """Take down that rows of a batch were written."""
        k = write.batch
        self.write_seconds[k] = write.seconds + np.nan_to_num(self.write_seconds[k])
        self.write_ended[k] = np.fmax(write.ended, self.write_ended[k])
        self.write_faults[k] += np.uint64(write.minor_faults)
        self.totals.add_write(write)

    def known(self) -> KnownCounts:
        """What is known of each batch: of all of them, once a run is done."""
        return self.counts.known()

    def progress(self, frames_total: int, last: BatchCount) -> RunProgress:
        """How far the run has come, with what the batch that was last found says of the pedestal."""
        return RunProgress(
            frames=self.frames_found,
            frames_total=frames_total,
            clusters=self.n_clusters,
            batches=self.batches_found,
            offset=last.offset.median,
            uses=self.totals.uses(),
            idle_seconds=self.totals.idle_seconds,
            skipped=self.batches_skipped,
            frames_before=self.frames_before,
            clusters_before=self.clusters_before,
            movement=last.movement,
        )
