"""The client's side of a run: which tasks are in flight, and what they have reported."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from distributed import Client, Future, as_completed

from finder.products import Products
from pipeline.batches.chain_states import ChainStart, chain_start
from pipeline.batches.failures import failure, reported
from pipeline.batches.plan import Batch, RowSpan, SharedChunk
from pipeline.batches.reports import BatchCount, BatchReport, BatchWrite, since
from pipeline.batches.run_record import RunProgress, RunRecord, Work
from pipeline.batches.worker import find_batch, join_edges, report_of, skip_batch, write_batch
from pipeline.errors import RunError, RunStoppedError
from pipeline.watching.run_events import OnEvent, RunEvent
from pipeline.workers.cluster_watch import ClusterWatch
from pipeline.workers.deaths import DeathsByTask
from pipeline.workers.word import Word

logger = logging.getLogger(__name__)

# A task that fails for a passing reason (a file server that stumbles) is run again so many times.
RETRIES = 2
# What frees memory goes before what fills it.
PRIORITIES = {"find": 0, "report": 1, "skip": 1, "write": 2, "join": 2}
# The results of these stay on their workers.
KEPT_THERE = ("find", "write")
# What is at work when the run is asked to stop may be finished, if it takes no longer.
SECONDS_TO_FINISH = 4.0


class Submission:
    """Submits the batches of a plan to a Dask cluster and sees each of them into the dataset.

    At most ``window`` batches a worker are being found at a time: one at work and one to follow it. No further batch is
    submitted while those that have been found but not written take more memory than the largest of them times the
    number of workers, so that one slow batch, which keeps all later ones from being written, does not fill the
    memory of the others. The batches of a chain are found one at a time.

    Args:
        client: The cluster.
        work: What there is to be done.
        watch: Notices when the cluster is lost, and when the run should stop.
        deaths: Decides what becomes of a batch whose workers end.
        word: What the tasks of the run have told.
        on_count: Called with what is known of each batch found or skipped, before anything else is done about it.
        on_products: Called then with its index and what was counted of its clusters, if anything was.
        on_progress: Called after each of them.
        on_oldest: Called with the first batch whose rows may not be in the dataset yet, and with what is known of each
            batch, whenever that may have changed.
        on_event: Told of each report and each failure.

    Attributes:
        record: What the tasks have reported so far.
    """

    def __init__(
        self,
        client: Client,
        work: Work,
        watch: ClusterWatch,
        deaths: DeathsByTask,
        word: Word,
        on_count: Callable[[BatchCount], None] | None = None,
        on_products: Callable[[int, Products], None] | None = None,
        on_progress: Callable[[RunProgress], None] | None = None,
        on_oldest: Callable[[int, Sequence[BatchCount | None]], None] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self._client = client
        self._work = work
        self._plan = work.plan
        self._on_count = on_count or (lambda count: None)
        self._on_products = on_products or (lambda batch, products: None)
        self._on_progress = on_progress or (lambda progress: None)
        self._watch = watch
        self._deaths = deaths
        self._word = word
        self._on_oldest = on_oldest or (lambda batch, counts: None)
        self._on_event = on_event or (lambda event: None)
        self.record = RunRecord(work)
        self._began_at = time.time()

        self._queue = as_completed(loop=client.loop, raise_errors=False)
        # The futures in the queue, each with its step and its batch (of a joined chunk, the first one).
        self._followed: dict[str, tuple[Future[Any], str, int]] = {}
        # Those that Dask gave up on because their workers ended, to be run again with nothing else at work.
        self._suspects: list[tuple[Future[Any], str, int]] = []
        self._alone: set[str] = set()
        self._to_find = iter(work.to_find)
        self._next = next(self._to_find, None)
        self._finding: dict[int, Future[Any]] = {}
        self._skipping: set[int] = set()
        self._unplaced: dict[int, Future[Any]] = {}
        self._unwritten_bytes: dict[int, int] = {}
        self._largest_batch = 0
        # Batches before this one have been given their rows of the dataset; the next one's begin at `_next_row`.
        self._placed = 0
        self._next_row = 0
        self._shared = SharedChunk(work.rows_per_chunk)
        # Of each batch whose rows wait for a chunk to be full: the task that has them.
        self._written: dict[int, Future[Any]] = {}

    def run(self) -> RunRecord:
        """Process all batches.

        Returns:
            What the tasks reported.

        Raises:
            BatchError: A batch failed after its retries; nothing further was submitted.
            OutputError: The dataset can't be written.
            RunError: The cluster was lost.
            RunStoppedError: The run was asked to stop; what was at work has been finished if that took no longer
                than a few seconds.
        """
        self._began_at = time.time()
        try:
            self._place_batches()
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
            left = [*followed, *self._finding.values(), *self._unplaced.values(), *self._written.values()]
            self._watch.let_go(lambda: self._client.cancel(left))
        return self.record

    def _stop(self) -> NoReturn:
        for future in self._watch.done_within(self._queue, SECONDS_TO_FINISH):
            # What fails now is for the resumed run to find: the user asked for an end, and gets it.
            if future.status == "finished":
                self._take(future)
        raise RunStoppedError(f"{self.record.batches_found} of {len(self._plan)} batches were found")

    def _submit_batches(self) -> None:
        while self._next is not None and self._may_submit():
            batch = self._plan[self._next]
            self._finding[batch.index] = self._submit(
                "find", batch.index, find_batch, self._work.run_id, batch, self._start_of(batch)
            )
            self._follow(self._finding[batch.index], "find", batch.index)
            self._next = next(self._to_find, None)

    def _may_submit(self) -> bool:
        if self._suspects or self._alone:
            return False
        workers = max(self._watch.n_threads, 1)
        at_once = self._work.in_flight(len(self._watch.workers), self._watch.n_threads)
        # With nothing being found all counts are known, writing goes on by itself, and the bytes become free again.
        return (
            len(self._finding) + len(self._skipping) < at_once
            and sum(self._unwritten_bytes.values()) <= workers * self._largest_batch
        )

    def _start_of(self, batch: Batch) -> ChainStart | None:
        return chain_start(self.record.counts, batch.index) if self._work.chained else None

    def _take(self, future: Future[Any]) -> None:
        key = str(future.key)
        _, step, batch = self._followed[key]
        # Of what was told before its worker ended no more is asked: what needs the rest makes Dask do it again.
        report = None if future.status in ("error", "cancelled") else self._word.take(key)
        if report is None and future.status == "finished":
            if step in KEPT_THERE and key == self._key(step, batch):
                # No word of it came: that it is done is known, and what it reports is asked for.
                self._forget(key)
                self._follow(self._submit("report", f"{step}-{batch}", report_of, future), step, batch)
                return
            report = reported(future, self._watch)
        if report is None and future.status not in ("error", "cancelled"):
            # Its worker ended with it after it was done and before it was taken: Dask does it again.
            self._queue.add(future)
            return
        self._forget(key)
        if report is None:
            if future.status == "error" and self._deaths.deserves_another_try(future.exception(), self._watch.hung):
                self._suspects.append((future, step, batch))
            else:
                self._take_failure(step, batch, future)
        elif isinstance(report, BatchReport):
            self._take_report(report)
        else:
            self._take_write(step, report)

    def _forget(self, key: str) -> None:
        del self._followed[key]
        self._alone.discard(key)

    def _take_write(self, step: str, write: BatchWrite) -> None:
        if write.nbytes:
            self.record.add_write(write)
            self._on_event(RunEvent.of_write(self._work.run_id, write))
        if step == "write":
            self._unwritten_bytes.pop(write.batch, None)
        self._on_oldest(self._oldest_unwritten(), self.record.counts)

    def _try_suspects(self) -> None:
        """Run a task that Dask gave up on once more, and by itself, since others at work may have been the cause."""
        if not self._suspects or not self._queue.is_empty():
            return
        task = self._deaths.try_again(self._suspects[0][0].exception())
        again = [suspect for suspect in self._suspects if suspect[0].exception().task == task]
        self._suspects = [suspect for suspect in self._suspects if suspect not in again]
        self._watch.answer(lambda: self._client.retry([future for future, _, _ in again]), "run a task again")
        for future, step, batch in again:
            self._on_event(RunEvent("batch_tried_again", self._work.run_id, batch=batch, message=f"{step}, by itself"))
            self._alone.add(str(future.key))
            self._followed[str(future.key)] = future, step, batch
            self._queue.add(future)

    def _take_report(self, report: BatchReport) -> None:
        count, index = since(self._began_at, report.count), report.count.batch.index
        if index in self._work.expected:
            count.require_digest(self._work.expected[index].digest)
        self._on_count(count)
        if report.products is not None:
            self._on_products(index, report.products)
        self.record.add(count)
        self._on_event(RunEvent.of_count(self._work.run_id, count))
        self._skipping.discard(index)
        if (found := self._finding.pop(index, None)) is not None:
            if self._work.cluster_list:
                self._unplaced[index] = found
                self._unwritten_bytes[index] = count.nbytes
                self._largest_batch = max(self._largest_batch, count.nbytes)
            self._watch.hanging.add_duration(count.read_seconds + count.find_seconds)
        self._place_batches()
        logger.info(
            "%s: %d clusters, read %.2f s, find %.2f s, on %s",
            count.batch,
            count.n_clusters,
            count.read_seconds,
            count.find_seconds,
            count.worker,
        )
        self._on_progress(self.record.progress(self._plan.n_frames, count))

    def _place_batches(self) -> None:
        """Write the batches whose first row has become known."""
        counts = self.record.counts
        while self._placed < len(self._plan) and (count := counts[self._placed]) is not None:
            index = self._placed
            span = RowSpan(self._next_row, self._next_row + count.n_clusters, self._work.rows_per_chunk)
            self._placed += 1
            self._next_row = span.stop
            if (found := self._unplaced.pop(index, None)) is not None:
                self._write(index, found, span, count.digest)
            for start, stop in (span.head, span.tail):
                self._join(self._shared.take(index, start, stop))
            if self._shared.last != index:
                self._written.pop(index, None)
        if self._placed == len(self._plan):
            self._join(self._shared.flush())
        self._on_oldest(self._oldest_unwritten(), self.record.counts)

    def _write(self, index: int, found: Future[Any], span: RowSpan, digest: str) -> None:
        if span.start == span.stop:
            self._unwritten_bytes.pop(index)
            return
        written = self._submit("write", index, write_batch, self._work.run_id, found, span, digest)
        self._follow(written, "write", index)
        self._written[index] = written

    def _join(self, chunk: tuple[int, list[int]] | None) -> None:
        """Write a chunk that several batches share; it is there already if one of them did not have to be found."""
        if chunk is None:
            return
        first_row, batches = chunk
        if all(batch in self._written for batch in batches):
            parts = [self._written[batch] for batch in batches]
            joined = self._submit("join", batches[0], join_edges, self._work.run_id, batches[0], first_row, parts)
            self._follow(joined, "join", batches[0])
        # A client that forgets a future lets Dask free its result once the tasks that need it are done.
        for batch in batches[:-1]:
            self._written.pop(batch, None)

    def _oldest_unwritten(self) -> int:
        """The first batch whose rows may not all be in the dataset."""
        being_written = (batch for _, step, batch in self._followed.values() if step in ("write", "join"))
        waiting = [] if self._shared.first is None else [self._shared.first]
        return min([self._placed, *waiting, *being_written])

    def _submit(self, step: str, batch: int | str, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._client.submit(
            task,
            *arguments,
            key=self._key(step, batch),
            priority=PRIORITIES[step],
            retries=RETRIES,
            pure=False,
        )

    def _key(self, step: str, batch: int | str) -> str:
        # What stands before the first dash is what Dask calls the kind of task, on its dashboard and in its estimates.
        return f"{step}-{self._work.run_id}-{batch}"

    def _follow(self, future: Future[Any], step: str, batch: int) -> None:
        self._followed[str(future.key)] = future, step, batch
        self._queue.add(future)

    def _take_failure(self, step: str, index: int, future: Future[Any]) -> None:
        error = failure(step, self._plan[index], future, self._watch, self._deaths)
        self._on_event(
            RunEvent("batch_failed", self._work.run_id, batch=index, message=error.cause or str(error.error))
        )
        may_be_skipped = step == "find" and self._work.on_bad_batch == "skip" and index not in self._work.expected
        if not may_be_skipped or error.status is None:
            raise error.error
        logger.info("%s is skipped: %s", self._plan[index], error.cause)
        self._finding.pop(index)
        self._skipping.add(index)
        skip = self._submit("skip", index, skip_batch, self._work.run_id, self._plan[index], error.status, error.cause)
        self._follow(skip, "skip", index)
