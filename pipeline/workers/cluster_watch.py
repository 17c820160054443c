"""Waiting for a cluster without waiting for ever: what it still has is looked at while a run waits for it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future as ConcurrentFuture
from dataclasses import dataclass
from typing import Any, TypeVar

from distributed import Client, Future, as_completed

from pipeline.errors import ClusterUnavailableError, RunStoppedError
from pipeline.workers.asking import Asked
from pipeline.workers.hanging import HangingTask, HangingTasks

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

SECONDS_BETWEEN_LOOKS = 2.0
# A worker that its nanny starts anew is back within so many seconds, and not worth a word.
SECONDS_UNREMARKED = 10.0
SECONDS_TO_RESTART = 20.0


@dataclass(frozen=True)
class Patience:
    """How long a run waits before it takes something for lost.

    Args:
        cluster_seconds: For the scheduler to answer, and for a first or another worker when there is none, in s.
        batch_seconds: How long a batch may be with a worker before that is restarted and the batch goes elsewhere,
            in s; None is what :class:`pipeline.workers.hanging.HangingTasks` derives.
        worker_seconds: How long to wait for a worker instead: in a queue of batch jobs it may come much later.
    """

    cluster_seconds: float = 120.0
    batch_seconds: float | None = None
    worker_seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.cluster_seconds > 0:
            raise ValueError(f"--cluster-timeout {self.cluster_seconds}: give a number of seconds above 0")
        if self.batch_seconds is not None and not self.batch_seconds > 0:
            raise ValueError(f"--batch-timeout {self.batch_seconds}: give a number of seconds above 0")


class ClusterWatch:
    """Waits for a cluster on behalf of a run, and notices when there is nothing left to wait for.

    Dask's own workers leave for good when they have had no link to their scheduler for 30 s, and a plain client then
    waits for ever.

    Args:
        client: The cluster.
        run_id: The run, whose tasks have it in their keys; other tasks on the cluster are none of its business.
        patience: How long to wait for what.
        should_stop: Says whether the run has been asked to stop.
        on_notice: Told in a sentence what the user should know.
        batch_bytes: Bytes of the frames of a batch.
    """

    def __init__(
        self,
        client: Client,
        run_id: str = "",
        patience: Patience | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        on_notice: Callable[[str], object] = lambda notice: None,
        batch_bytes: int = 0,
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._patience = patience or Patience()
        self.should_stop = should_stop
        self._on_notice = on_notice
        self.hanging = HangingTasks(self._patience.batch_seconds, batch_bytes)
        self._look: ConcurrentFuture[tuple[dict[str, Any], dict[str, Any]]] | None = None
        self._asked = self._answered = self._worker_seen = time.monotonic()
        self._remarked = False
        self._restarting: dict[str, ConcurrentFuture[Any]] = {}
        self.workers: dict[str, dict[str, Any]] = {}
        # How often a task hung, by its key.
        self.hung: Counter[str] = Counter()

    @property
    def _seconds_for_workers(self) -> float:
        return self._patience.worker_seconds or self._patience.cluster_seconds

    @property
    def n_threads(self) -> int:
        """Worker threads that were there when they were last looked at: so many batches can be at work at once."""
        return sum(worker["nthreads"] for worker in self.workers.values())

    def next_done(self, queue: as_completed) -> list[Future[Any]]:
        """Wait for the next futures of a queue to be done, or for the wish to stop; then there may be none.

        Raises:
            ClusterUnavailableError: The scheduler went away or doesn't answer, or there has been no worker for too
                long.
        """
        self._answered = self._worker_seen = time.monotonic()
        while not (done := _still_done(queue)):
            if self.should_stop():
                return []
            with queue.thread_condition:
                queue.thread_condition.wait(timeout=0.1)
            self.look()
        return done

    def done_within(self, queue: as_completed, seconds: float) -> Iterator[Future[Any]]:
        """The futures of a queue that are done within so many seconds, whatever else happens."""
        deadline = time.monotonic() + seconds
        while not queue.is_empty() and time.monotonic() < deadline:
            yield from queue.next_batch(block=False)
            with queue.thread_condition:
                queue.thread_condition.wait(timeout=0.05)

    def wait_for_worker(self) -> None:
        """Wait until there is a worker.

        Raises:
            ClusterUnavailableError: None came, or the scheduler went away.
            RunStoppedError: The run was asked to stop.
        """
        self._answered = self._worker_seen = time.monotonic()
        while not self.workers:
            if self.should_stop():
                raise RunStoppedError("stopped")
            self.look()
            time.sleep(0.02)

    def answer(self, call: Callable[[], Answer], what: str, seconds: float | None = None) -> Answer:
        """What a call to the cluster returns, which by itself would wait for ever on a worker that hangs.

        Args:
            call: What to call; it goes on in a thread of its own where nobody waits for it any more.
            what: What the cluster is asked to do, in words.
            seconds: How long to wait; None is ``cluster_seconds``.

        Raises:
            ClusterUnavailableError: There was no answer.
            RunStoppedError: The run was asked to stop.
        """
        seconds = self._patience.cluster_seconds if seconds is None else seconds
        asked = Asked(call, what)
        deadline = time.monotonic() + seconds
        while not asked.done_within(0.1):
            if self.should_stop():
                raise RunStoppedError("stopped")
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(f"{self.name} did not {what} within {seconds:g} s")
        answer: Answer = asked.answer()
        return answer

    def report(self, future: Future[Any]) -> Any:
        """What a task that is done returned; a worker that hangs with it is ended, and the task done elsewhere.

        Raises:
            ClusterUnavailableError: The scheduler or all workers went away.
        """
        while True:
            asked = Asked(future.result, "report")
            began = time.monotonic()
            while not asked.done_within(0.1):
                self.look()
                if time.monotonic() - began > self.hanging.seconds:
                    break
            else:
                return asked.answer()
            key = str(future.key)
            holders = self.answer(lambda: self._client.who_has([future]), "tell where a result is")
            for worker in holders.get(key, ()):
                self._send_elsewhere(HangingTask(key, worker, time.monotonic() - began))

    def let_go(self, call: Callable[[], object], seconds: float = 5.0) -> None:
        """Tidy up on the cluster, for which a cluster that is lost has a few seconds."""

        def tidy() -> None:
            try:
                call()
            except Exception as error:
                logger.info("tidying up on the cluster: %s: %s", type(error).__name__, error)

        tidying = threading.Thread(target=tidy, daemon=True)
        tidying.start()
        tidying.join(timeout=seconds)

    @property
    def name(self) -> str:
        """The cluster in words."""
        return f"the scheduler at {self._address}"

    @property
    def _address(self) -> str:
        return str(self._client.scheduler.address) if self._client.scheduler is not None else "its address"

    def look(self) -> None:
        """Look at the cluster, every now and then: a question is asked now and its answer taken another time.

        Raises:
            ClusterUnavailableError: See :meth:`next_done`.
        """
        now = time.monotonic()
        if self._client.status not in ("running", "connecting"):
            raise ClusterUnavailableError(f"{self.name} has gone")
        if self._look is None:
            if now - self._asked > SECONDS_BETWEEN_LOOKS or not self.workers:
                self._asked = now
                self._look = self._begin(_state(self._client))
        elif self._look.done():
            self._take(now, self._look)
            self._look = None
        if now - self._answered > self._patience.cluster_seconds:
            raise ClusterUnavailableError(
                f"{self.name} has not answered for {self._patience.cluster_seconds:g} s: it hangs, or the link to it "
                "is cut"
            )
        trouble = getattr(self._client.cluster, "trouble", None)
        if trouble is not None and (sentence := trouble()) is not None and not self.workers:
            raise ClusterUnavailableError(sentence)
        if now - self._worker_seen > self._seconds_for_workers:
            raise ClusterUnavailableError(
                f"{self.name} has had no worker for {self._seconds_for_workers:g} s: they ended, or lost their "
                f"connection; start some with `dask worker {self._address} --nthreads 1`"
            )

    def _take(self, now: float, look: ConcurrentFuture[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        try:
            self.workers, processing = look.result()
        except (OSError, RuntimeError, asyncio.CancelledError) as error:
            logger.info("%s does not answer: %s", self.name, error)
            return
        self._answered = now
        if self.workers:
            self._worker_seen = now
            if self._remarked:
                self._on_notice(f"workers are there again: {len(self.workers)}")
                self._remarked = False
        elif now - self._worker_seen > SECONDS_UNREMARKED and not self._remarked:
            self._remarked = True
            self._on_notice(
                f"{self.name} has no worker: waiting up to {self._seconds_for_workers:g} s for one, and going on "
                "as soon as it is there"
            )
        ours = {
            worker: [key for key in map(str, keys) if f"-{self._run_id}-" in key] for worker, keys in processing.items()
        }
        for task in self.hanging.update(now, ours):
            self._send_elsewhere(task)

    def _send_elsewhere(self, task: HangingTask) -> None:
        """Restart the worker where a task hangs, so that Dask runs what it had on another one."""
        restarting = self._restarting.get(task.worker)
        if restarting is not None and not restarting.done():
            return
        self.hung[task.key] += 1
        what = f"batch {task.key.rpartition('-')[2]}" if task.key.startswith("find-") else "a task"
        self._on_notice(
            f"{what} has been with the worker {task.worker} for {task.seconds:.0f} s, longer than --batch-timeout "
            f"{self.hanging.seconds:g}: that worker is ended, and what it had is done elsewhere"
        )
        self._restarting[task.worker] = self._begin(_restart(self._client, task.worker))

    def _begin(self, coroutine: Coroutine[Any, Any, Answer]) -> ConcurrentFuture[Answer]:
        loop: Any = self._client.loop
        return asyncio.run_coroutine_threadsafe(coroutine, loop.asyncio_loop)


async def _state(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
    """The workers that are running, and the keys of what each has been given."""
    scheduler: Any = client.scheduler
    identity = await scheduler.identity(n_workers=-1)
    return identity["workers"], await scheduler.processing(workers=None)


async def _restart(client: Client, worker: str) -> None:
    scheduler: Any = client.scheduler
    await scheduler.restart_workers(
        workers=[worker],
        timeout=SECONDS_TO_RESTART,
        wait_for_workers=False,
        on_error="return",
        stimulus_id=f"photonflow-hanging-{time.time()}",
    )


def despite_deaths(call: Callable[[], Answer], tries: int = 10) -> Answer:
    """Make a call that asks every worker, and make it again if one of them ends meanwhile.

    Raises:
        OSError: So many times over, or the scheduler itself has gone.
    """
    for _ in range(tries - 1):
        try:
            return call()
        except OSError as error:
            logger.info("a worker ended while it was asked: %s", error)
            time.sleep(0.5)
    return call()


def _still_done(queue: as_completed) -> list[Future[Any]]:
    """The futures of a queue that are done, but those whose worker has ended since with the result: they come anew."""
    done = []
    for future in queue.next_batch(block=False):
        if future.status in ("lost", "pending"):
            queue.add(future)
        else:
            done.append(future)
    return done
