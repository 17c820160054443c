"""How workers ended: for want of memory, in a crash, or killed by someone else."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from distributed import Client, NannyPlugin

from pipeline.workers.memory import memory_there_is, out_of_memory_kills

logger = logging.getLogger(__name__)

Cause = Literal["memory", "crash", "killed", "unknown"]
# What the last moments of a worker are told by its nanny arrives a little after Dask has noticed that it is gone.
SECONDS_FOR_NEWS = 10.0
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")


@dataclass(frozen=True)
class WorkerExit:
    """How a worker process ended.

    Args:
        worker: Its address; "" if it ended before its nanny had heard that.
        nanny: The address of its nanny.
        exit_code: As Python reports it: negative is the signal that ended it.
        cause: ``memory``: it was ended because there was too little; ``crash``: a fault in compiled code; ``killed``:
            by a signal from elsewhere; ``unknown``: it left by itself.
        peak_bytes: The most memory that a worker on its machine has taken so far.
        limit_bytes: What it was allowed; 0 is no limit.
        memory_bytes: What its machine, or its cgroup there, has in all.
    """

    worker: str
    nanny: str
    exit_code: int
    cause: Cause
    peak_bytes: int
    limit_bytes: int
    memory_bytes: int

    @property
    def how(self) -> str:
        """The signal's name, or the exit status."""
        if self.exit_code < 0:
            try:
                return signal.Signals(-self.exit_code).name
            except ValueError:
                return f"signal {-self.exit_code}"
        return f"exit status {self.exit_code}"


class ExitReporter(NannyPlugin):
    """Tells of the end of each worker process what only its nanny knows.

    Dask itself reports a worker that is gone, but not why. A nanny hears its worker's exit code and passes it on here.
    """

    def __init__(self, run_id: str) -> None:
        self.name = f"photonflow-exits-{run_id}"
        self._topic = topic(run_id)
        self._kills = 0
        self._last_worker = ""

    def setup(self, nanny: Any) -> None:
        """Listen to the worker that is there, and to those that will take its place."""
        self._kills = out_of_memory_kills()
        self._nanny = nanny
        if not hasattr(nanny, "_on_worker_exit_sync"):
            # Private to Dask: without it a worker's end is told without its cause, and the run goes on.
            logger.info("this version of Dask does not let the causes of workers' ends be heard")
            return
        self._passed_on: Callable[[int], None] = nanny._on_worker_exit_sync
        nanny._on_worker_exit_sync = self._report
        if nanny.process is not None:
            nanny.process.on_exit = self._report

    def teardown(self, nanny: Any) -> None:
        """Listen no more."""
        # Another run's may have been put around this one's; then it stays, and reports to nobody.
        if getattr(nanny, "_on_worker_exit_sync", None) == self._report:
            nanny._on_worker_exit_sync = self._passed_on
            if nanny.process is not None:
                nanny.process.on_exit = self._passed_on

    def _report(self, exit_code: int) -> None:
        nanny = self._nanny
        try:
            news = asdict(self._exit(nanny, exit_code))
            nanny.log_event(self._topic, news)
        except Exception:
            logger.exception("the end of a worker could not be reported")
        self._passed_on(exit_code)

    def _exit(self, nanny: Any, exit_code: int) -> WorkerExit:
        before, self._kills = self._kills, out_of_memory_kills()
        name = signal.Signals(-exit_code).name if exit_code in [-s for s in signal.Signals] else ""
        # Dask's own limit is kept by the nanny: with SIGTERM first, and SIGKILL when that has no effect.
        over_limit = nanny.memory_manager._last_terminated_pid != -1 and name in ("SIGTERM", "SIGKILL")
        cause: Cause = "unknown"
        if over_limit or (name == "SIGKILL" and self._kills > before):
            cause = "memory"
        elif name in _CRASHES:
            cause = "crash"
        elif name:
            cause = "killed"
        nanny.memory_manager._last_terminated_pid = -1
        process = nanny.process
        worker = str(process.worker_address if process is not None else nanny.worker_address)
        # A worker may register, be given a task and end of it before its nanny hears its address, and so has that of
        # the one before.
        worker, self._last_worker = "" if worker == self._last_worker else worker, worker
        return WorkerExit(
            worker=worker,
            nanny=str(nanny.address),
            exit_code=exit_code,
            cause=cause,
            peak_bytes=_peak_of_children(),
            limit_bytes=int(nanny.memory_manager.memory_limit or 0),
            memory_bytes=memory_there_is().total,
        )


class WorkerExits:
    """What the nannies of a cluster have told of their workers' ends."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self.exits: deque[WorkerExit] = deque(maxlen=1000)

    def listen(self) -> None:
        """Begin to listen: workers that end from now on are heard of."""
        self._client.subscribe_topic(topic(self._run_id), self._hear)
        self._client.register_plugin(ExitReporter(self._run_id))

    def stop(self) -> None:
        """Listen no more."""
        self._client.unregister_worker_plugin(f"photonflow-exits-{self._run_id}", nanny=True)
        self._client.unsubscribe_topic(topic(self._run_id))

    def of(self, worker: str, patience: float = SECONDS_FOR_NEWS) -> WorkerExit | None:
        """How the worker at an address ended; None if its nanny, or there being none, leaves that unknown."""
        deadline = time.monotonic() + patience
        while True:
            nameless = None
            for known in reversed(list(self.exits)):
                if known.worker == worker:
                    return known
                if not known.worker and nameless is None and _host(known.nanny) == _host(worker):
                    nameless = known
            if nameless is not None:
                return nameless
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)

    def _hear(self, event: tuple[float, Any]) -> None:
        try:
            self.exits.append(WorkerExit(**event[1]))
        except TypeError:
            logger.info("news of a worker's end that can't be read: %s", event)


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _peak_of_children() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def topic(run_id: str) -> str:
    """Dask's topic under which the ends of workers are told."""
    return f"photonflow-exits-{run_id}"
