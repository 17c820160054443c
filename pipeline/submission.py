"""The client's side of a run: which tasks are in flight, and what they have reported."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, NoReturn

from distributed import Client, Future, KilledWorker, as_completed

from pipeline.cluster_watch import ClusterWatch
from pipeline.deaths import DeathsByTask
from pipeline.errors import BatchError, ClusterUnavailableError, RunError, RunStoppedError
from pipeline.plan import BatchPlan, RowSpan, SharedChunk
from pipeline.worker import (
    BatchCount,
    BatchWrite,
    batch_edges,
    count_batch,
    find_batch,
    join_edges,
    write_batch,
)

logger = logging.getLogger(__name__)

# A task that fails for a passing reason (a file server that stumbles) is run again so many times.
RETRIES = 2
# What frees memory goes before what fills it.
PRIORITIES = {"find": 0, "count": 1, "write": 2, "edges": 2, "join": 2}
# What is at work when the run is asked to stop may be finished, if it takes no longer.
SECONDS_TO_FINISH = 4.0


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come: what everything that watches one is told."""

    frames: int
    frames_total: int
    clusters: int
    batches: int


@dataclass
class RunRecord:
    """What the tasks of a run reported."""

    counts: list[BatchCount | None]
    write_seconds: list[float]
    write_bytes: list[int]
    write_stored_bytes: list[int]
    write_ended: list[float]
    n_clusters: int = 0
    progress: RunProgress = field(default_factory=lambda: RunProgress(0, 0, 0, 0))


class Submission:
    """Submits the batches of a plan to a Dask cluster and sees each of them into the dataset.

    At most ``window`` batches a worker are being found at a time: one at work and one to follow it. No further batch is
    submitted while those that have been found but not written take more memory than the largest of them times the
    number of workers, so that one slow batch, which keeps all later ones from being written, does not fill the
    memory of the others.

    Args:
        client: The cluster.
        run_id: The run, as the workers' plugin knows it.
        plan: The batches.
        rows_per_chunk: Rows in a chunk of the dataset.
        window: Batches in flight a worker.
        on_progress: Called after each batch found.
        watch: Notices when the cluster is lost, and when the run should stop.
        deaths: Decides what becomes of a batch whose workers end.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        plan: BatchPlan,
        rows_per_chunk: int,
        window: int = 2,
        on_progress: Callable[[RunProgress], None] | None = None,
        watch: ClusterWatch | None = None,
        deaths: DeathsByTask | None = None,
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._plan = plan
        self._rows_per_chunk = rows_per_chunk
        self._window = window
        self._on_progress = on_progress or (lambda progress: None)
        self._watch = watch or ClusterWatch(client, run_id)
        self._deaths = deaths or DeathsByTask()
        self._record = RunRecord(
            [None] * len(plan), [0.0] * len(plan), [0] * len(plan), [0] * len(plan), [math.nan] * len(plan)
        )
        self._frames_found = 0
        self._batches_found = 0

        self._queue = as_completed(loop=client.loop, raise_errors=False)
        # The futures in the queue, each with its step and its batch (of a joined chunk, the first one).
        self._followed: dict[str, tuple[Future[Any], str, int]] = {}
        # Those that Dask gave up on because their workers ended, to be run again with nothing else at work.
        self._suspects: list[tuple[Future[Any], str, int]] = []
        self._alone: set[str] = set()
        self._next_batch = 0
        self._finding: dict[int, Future[Any]] = {}
        self._unplaced: dict[int, Future[Any]] = {}
        self._unwritten_bytes: dict[int, int] = {}
        self._largest_batch = 0
        # Batches before this one have been given their rows of the dataset; the next one's begin at `_next_row`.
        self._placed = 0
        self._next_row = 0
        self._shared = SharedChunk(rows_per_chunk)
        self._edges: dict[int, Future[Any]] = {}

    def run(self) -> RunRecord:
        """Process all batches.

        Returns:
            What the tasks reported.

        Raises:
            BatchError: A batch failed after its retries; nothing further was submitted.
            RunError: The cluster was lost.
            RunStoppedError: The run was asked to stop; what was at work has been finished if that took no longer
                than a few seconds.
        """
        try:
            self._submit_batches()
            while not self._queue.is_empty():
                for future in self._watch.next_done(self._queue):
                    self._take(future)
                if self._watch.should_stop():
                    self._stop()
                self._submit_batches()
                self._try_suspects()
            if self._placed < len(self._plan):
                raise RunError(f"a fault in photonflow: only {self._placed} of {len(self._plan)} batches were done")
        finally:
            # After a failure or an interruption nothing further may be written; after success nothing is left.
            followed = [future for future, _, _ in self._followed.values()]
            left = [*followed, *self._finding.values(), *self._unplaced.values(), *self._edges.values()]
            self._watch.let_go(lambda: self._client.cancel(left))
        return self._record

    def _stop(self) -> NoReturn:
        for future in self._watch.done_within(self._queue, SECONDS_TO_FINISH):
            self._take(future)
        raise RunStoppedError(f"{self._batches_found} of {len(self._plan)} batches were found")

    def _submit_batches(self) -> None:
        while self._next_batch < len(self._plan) and self._may_submit():
            batch = self._plan[self._next_batch]
            found = self._submit("find", batch.index, find_batch, self._run_id, batch)
            self._finding[batch.index] = found
            self._follow("count", batch.index, count_batch, self._run_id, found)
            self._next_batch += 1

    def _may_submit(self) -> bool:
        if self._suspects or self._alone:
            return False
        workers = max(self._watch.n_threads, 1)
        # With nothing being found all counts are known, writing goes on by itself, and the bytes become free again.
        return (
            len(self._finding) < self._window * workers
            and sum(self._unwritten_bytes.values()) <= workers * self._largest_batch
        )

    def _take(self, future: Future[Any]) -> None:
        _, step, batch = self._followed.pop(str(future.key))
        self._alone.discard(str(future.key))
        result = self._result(future)
        if result is None:
            if future.status == "error" and self._deaths.deserves_another_try(future.exception(), self._watch.hung):
                self._suspects.append((future, step, batch))
                return
            raise self._failure(step, batch, future)
        if isinstance(result, BatchCount):
            self._take_count(result)
        else:
            self._record.write_seconds[result.batch] += result.seconds
            self._record.write_bytes[result.batch] += result.nbytes
            self._record.write_stored_bytes[result.batch] += result.stored_bytes
            # `max` of a NaN and a number is whichever comes first.
            self._record.write_ended[result.batch] = max(result.ended, self._record.write_ended[result.batch])
            if step == "write":
                self._unwritten_bytes.pop(result.batch, None)

    def _result(self, future: Future[Any]) -> BatchCount | BatchWrite | None:
        """What a task that is done reports; None if it failed."""
        if future.status != "finished":
            return None
        try:
            reported: BatchCount | BatchWrite = self._watch.answer(future.result, "hand over what a batch reports")
        except KilledWorker:
            # Its worker ended after all, with the report, and so did those that made it anew.
            return None
        except (OSError, CancelledError) as error:
            raise ClusterUnavailableError(f"{self._watch.name} went away: {error}") from error
        return reported

    def _try_suspects(self) -> None:
        """Run a task that Dask gave up on once more, and by itself, since others at work may have been the cause."""
        if not self._suspects or not self._queue.is_empty():
            return
        task = self._deaths.try_again(self._suspects[0][0].exception())
        again = [suspect for suspect in self._suspects if suspect[0].exception().task == task]
        self._suspects = [suspect for suspect in self._suspects if suspect not in again]
        self._watch.answer(lambda: self._client.retry([future for future, _, _ in again]), "run a task again")
        for future, step, batch in again:
            self._alone.add(str(future.key))
            self._followed[str(future.key)] = future, step, batch
            self._queue.add(future)

    def _take_count(self, count: BatchCount) -> None:
        index = count.batch.index
        self._record.counts[index] = count
        self._unplaced[index] = self._finding.pop(index)
        self._unwritten_bytes[index] = count.nbytes
        self._largest_batch = max(self._largest_batch, count.nbytes)
        self._batches_found += 1
        self._watch.hanging.add_duration(count.read_seconds + count.find_seconds)
        self._frames_found += count.batch.n_frames
        self._record.n_clusters += count.n_clusters
        self._place_batches()
        self._record.progress = RunProgress(
            self._frames_found, self._plan.n_frames, self._record.n_clusters, self._batches_found
        )
        logger.info(
            "%s: %d clusters, read %.2f s, find %.2f s, on %s",
            count.batch,
            count.n_clusters,
            count.read_seconds,
            count.find_seconds,
            count.worker,
        )
        self._on_progress(self._record.progress)

    def _place_batches(self) -> None:
        """Write the batches whose first row has become known."""
        while (found := self._unplaced.pop(self._placed, None)) is not None:
            index = self._placed
            count = self._record.counts[index]
            assert count is not None
            span = RowSpan(self._next_row, self._next_row + count.n_clusters, self._rows_per_chunk)
            self._placed += 1
            self._next_row = span.stop
            if span.body[0] < span.body[1]:
                self._follow("write", index, write_batch, self._run_id, found, span)
            else:
                self._unwritten_bytes.pop(index)
            if count.n_clusters:
                self._edges[index] = self._submit("edges", index, batch_edges, found, span)
            for start, stop in (span.head, span.tail):
                self._join(self._shared.take(index, start, stop))
            # A client that forgets a future lets Dask free its result once the tasks that need it are done.
            self._edges = {batch: self._edges[batch] for batch in self._shared.batches}
        if self._placed == len(self._plan):
            self._join(self._shared.flush())

    def _join(self, chunk: tuple[int, list[int]] | None) -> None:
        if chunk is not None:
            first_row, batches = chunk
            edges = [self._edges[batch] for batch in batches]
            self._follow("join", batches[0], join_edges, self._run_id, batches[0], first_row, edges)

    def _submit(self, step: str, batch: int, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        # What stands before the first dash is what Dask calls the kind of task, on its dashboard and in its estimates.
        return self._client.submit(
            task,
            *arguments,
            key=f"{step}-{self._run_id}-{batch}",
            priority=PRIORITIES[step],
            retries=RETRIES,
            pure=False,
        )

    def _follow(self, step: str, batch: int, task: Callable[..., Any], *arguments: Any) -> None:
        future = self._submit(step, batch, task, *arguments)
        self._followed[str(future.key)] = future, step, batch
        self._queue.add(future)

    def _failure(self, step: str, index: int, future: Future[Any]) -> RunError:
        batch = self._plan[index]
        if future.status in ("cancelled", "lost"):
            return ClusterUnavailableError(f"{self._watch.name} went away while {batch} was at work")
        cause = future.exception()
        logger.info("%s failed at step %s", batch, step, exc_info=cause)
        if isinstance(cause, KilledWorker):
            return BatchError(f"{batch} {self._deaths.sentence(cause, self._watch.hung)}")
        return BatchError(f"{batch} failed: {cause}")
