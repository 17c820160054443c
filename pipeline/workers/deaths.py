"""What becomes of a batch whose workers end: another try by itself, or a sentence that says what ended them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from distributed import KilledWorker

from pipeline.workers.memory import bytes_in_words
from pipeline.workers.worker_exits import WorkerExit

logger = logging.getLogger(__name__)

# Tries by itself, after those that Dask made. A crash or a want of memory that comes again with nothing else at work
# is the batch's own; one who kills workers from outside may hit the same batch several times by chance.
TRIES_ALONE = 1
TRIES_ALONE_WHEN_KILLED = 5
MORE_THAN_THE_PEAK = 1.25


class DeathsByTask:
    """Tells a task that ends its workers from one that was merely there when they ended.

    Dask gives up on every task that a worker had, also those it had not begun, when that was the fourth worker to end
    with the task. Each is then tried again with nothing else at work: the innocent pass.

    Args:
        exit_of: How the worker at an address ended, if that is known.
        on_notice: Told in a sentence what the user should know.
        n_workers: Workers of the run.
        projected_bytes: Memory that one was expected to need; 0 if that is not known.
    """

    def __init__(
        self,
        exit_of: Callable[[str], WorkerExit | None] = lambda worker: None,
        on_notice: Callable[[str], object] = lambda notice: None,
        n_workers: int = 1,
        projected_bytes: int = 0,
    ) -> None:
        self._exit_of = exit_of
        self._on_notice = on_notice
        self._tries: Counter[str] = Counter()
        self._n_workers = n_workers
        self._projected_bytes = projected_bytes

    def deserves_another_try(self, error: BaseException | None, hung: Mapping[str, int]) -> bool:
        """Whether a task that failed should be tried by itself."""
        if not isinstance(error, KilledWorker):
            return False
        task = str(error.task)
        # It does not end its workers, they are ended because it does not end.
        if hung.get(task, 0):
            return False
        ended = self._exit_of(error.last_worker.address)
        limit = TRIES_ALONE_WHEN_KILLED if ended is not None and ended.cause == "killed" else TRIES_ALONE
        return self._tries[task] < limit

    def try_again(self, error: BaseException | None) -> str:
        """Note that a task is now tried by itself; returns its key."""
        assert isinstance(error, KilledWorker)
        task = str(error.task)
        if not self._tries[task]:
            self._on_notice(
                f"a worker ended {error.allowed_failures + 1} times with {_batch_of(task)}: it is now tried by itself"
            )
        self._tries[task] += 1
        return task

    def sentence(self, error: KilledWorker, hung: Mapping[str, int]) -> str:
        """What a batch did to its workers, and what to do about it."""
        times = error.allowed_failures + 1 + self._tries[str(error.task)]
        if hung.get(str(error.task), 0):
            return (
                f"was with {times} workers, one after the other, for longer than --batch-timeout allows: either what "
                "it reads or writes hangs, or the time is too short"
            )
        ended = self._exit_of(error.last_worker.address)
        if ended is None:
            return (
                f"ended its worker {times} times: most often that is for want of memory; use fewer workers or a "
                "smaller --batch-size (which is part of the result)"
            )
        if ended.cause == "memory":
            return f"ended its worker {times} times for want of memory: {self._memory_advice(ended)}"
        if ended.cause == "crash":
            return (
                f"ended its worker {times} times by {ended.how}: a crash in compiled code and not want of memory; "
                "please report it"
            )
        if ended.cause == "killed":
            return (
                f"was at work {times} times when its worker was ended by {ended.how}, which something outside "
                "photonflow sent: a batch system's limit, a memory watchdog, or a person"
            )
        return f"ended its worker {times} times with {ended.how}: see the worker's log"

    def _memory_advice(self, ended: WorkerExit) -> str:
        smaller = "use a smaller --batch-size (which is part of the result)"
        took = f"one took {bytes_in_words(ended.peak_bytes)} or more"
        share = ended.memory_bytes / self._n_workers
        if 0 < ended.limit_bytes < 0.9 * share:
            return f"{took}, and its memory_limit is {bytes_in_words(ended.limit_bytes)}: raise that, or {smaller}"
        took = f"{took} of the {bytes_in_words(ended.memory_bytes)} that there are"
        # It would have taken more than it had when it was ended.
        needed = max(self._projected_bytes, MORE_THAN_THE_PEAK * ended.peak_bytes)
        fit = min(int(ended.memory_bytes / needed), self._n_workers - 1)
        if fit < 1:
            return f"{took}: {smaller}"
        return f"{took}: use --cpus {fit}, for which that is enough, or {smaller}"


def _batch_of(task: str) -> str:
    return f"batch {task.rpartition('-')[2]}"
