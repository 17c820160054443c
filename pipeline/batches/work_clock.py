"""When a worker's threads were at work, and when they had nothing to do."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class WorkClock:
    """Adds up, for each thread by itself, the time between one task of a run and the next."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._of_thread = threading.local()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A task of the run is done within."""
        own = self._of_thread
        own.idle = getattr(own, "idle", 0.0) + time.monotonic() - getattr(own, "ended", self._began)
        try:
            yield
        finally:
            own.ended = time.monotonic()

    def take_idle_seconds(self) -> float:
        """How long this thread had nothing to do since this was last asked, or since the worker was ready, in s."""
        idle: float = self._of_thread.idle
        self._of_thread.idle = 0.0
        return idle


def minor_faults() -> int:
    """Minor page faults of this thread so far; where threads are not told apart, of the process."""
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_minflt
