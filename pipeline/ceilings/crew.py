"""Processes, one a core, that do the same work at the same time: what a run's workers would compete for."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Protocol

from pipeline.ceilings.measured import Spread
from pipeline.errors import RunError

WINDOWS = 5
WINDOW_SECONDS = 0.2
SECONDS_TO_END = 5.0


class Done(NamedTuple):
    """A little work, done.

    Args:
        amount: How much: bytes, operations.
        seconds: How long that took, in s, if not all of the time counts.
    """

    amount: float
    seconds: float | None = None


class Work(Protocol):
    """Something that can be done over and over; sent to the processes, so it has to be picklable."""

    def prepared(self, member: int) -> Callable[[], Done]:
        """A function that does a little of it, some milliseconds.

        Args:
            member: Which process of the crew it is for, from 0.
        """


class Crew:
    """A context manager that keeps processes ready.

    Args:
        size: How many: one for each core.
        window_seconds: How long each of the looks at a rate takes, in s.
    """

    def __init__(self, size: int, window_seconds: float = WINDOW_SECONDS) -> None:
        self.size = size
        self._window_seconds = window_seconds
        self._connections: list[Connection] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []

    def __enter__(self) -> Crew:
        context = multiprocessing.get_context("spawn")
        for member in range(self.size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, member), daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            # It ends by itself, in good order, when it finds its connection closed.
            process.join(SECONDS_TO_END)
            process.terminate()
            process.join()

    def rate(self, work: Work, members: int) -> Spread:
        """How much of the work so many processes do in a second, all together.

        Every process does it once before the clock starts; then all begin together, and are looked at window by window.

        Raises:
            ValueError: The work can't be done; the message is the process's own.
            RunError: A process ended.
        """
        crew = self._connections[:members]
        try:
            for connection in crew:
                connection.send(work)
            for connection in crew:
                _raise_if_failed(connection.recv())
            begin = time.monotonic() + 0.01
            for connection in crew:
                connection.send((begin, self._window_seconds))
            rates = [_raise_if_failed(connection.recv()) for connection in crew]
        except (EOFError, OSError) as error:
            raise RunError(f"a process ended while {work} was measured: measure again, or look why it ended") from error
        return Spread.of([sum(window) for window in zip(*rates, strict=True)])


def _raise_if_failed(answer: list[float] | Exception) -> list[float]:
    if isinstance(answer, Exception):
        raise ValueError(str(answer)) from answer
    return answer


def _serve(connection: Connection, member: int) -> None:
    # Ctrl-C is for the process that asks; it ends these.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            work: Work = connection.recv()
        except EOFError:
            return
        try:
            step = work.prepared(member)
            step()
            connection.send([])
            begin, seconds = connection.recv()
            connection.send([_rate(step, begin + window * seconds, seconds) for window in range(WINDOWS)])
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:
            connection.send(ValueError(str(error) or type(error).__name__))


def _rate(step: Callable[[], Done], begin: float, seconds: float) -> float:
    while (now := time.monotonic()) < begin:
        time.sleep(max(begin - now, 0))
    done = taken = 0.0
    while now < begin + seconds or taken == 0:
        amount, counted = step()
        then = time.monotonic()
        done += amount
        taken += then - now if counted is None else counted
        now = then
    return done / taken
