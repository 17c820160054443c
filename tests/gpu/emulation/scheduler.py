"""Work that waits on streams, and runs in an order that nobody may count on."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gpu.device import DeviceError

MOODS = (0.0, 0.5, 1.0)  # How likely it is that work goes on by itself: all as late, or as soon, as it may be.
MOOD_LASTS = 20, 1000  # Operations.
CHANGES = (0.0, 0.002, 0.05)  # How likely it is that ranks change with an operation.


@dataclass
class Operation:
    """One thing that is queued.

    Attributes:
        run: does it.
        may_run: whether what it waits for has happened.
    """

    run: Callable[[], None]
    may_run: Callable[[], bool] = lambda: True


@dataclass(eq=False)
class Queue:
    """A stream's work, in its order.

    Attributes:
        rank: Those with the highest go first, for a while: others starve meanwhile.
    """

    rank: float
    operations: deque[Operation] = field(default_factory=deque)


class Scheduler:
    """Runs the heads of queues, one at a time, in an order that is drawn anew at random times.

    Attributes:
        lock: held while anything is queued or run.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lock = threading.RLock()
        self._queues: list[Queue] = []
        self._mood, self._lasts = 0.0, 0
        self._change = self.random.choice(CHANGES)
        self._failure: Exception | None = None

    def queue(self) -> Queue:
        """A new stream's work."""
        with self.lock:
            self._queues.append(Queue(self.random.random()))
            return self._queues[-1]

    def add(self, queue: Queue, operation: Operation) -> None:
        """Queue work; some of all that waits may run now."""
        with self.lock:
            queue.operations.append(operation)
            if self._lasts == 0:
                least, most = MOOD_LASTS
                self._mood, self._lasts = self.random.choice(MOODS), int(least * (most / least) ** self.random.random())
            if self.random.random() < self._change:
                for other in self._queues:
                    other.rank = self.random.random()
            self._lasts -= 1
            while self.random.random() < self._mood and self._step():
                pass

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run work until `done`, and perhaps more.

        Raises:
            DeviceError: it never will be, or some work has failed.
        """
        with self.lock:
            while not done():
                if not self._step():
                    raise DeviceError("a host waits for what was never queued")
            self._raise_failure()

    def _step(self) -> bool:
        """Run one operation, if any may run."""
        ready = [queue for queue in self._queues if queue.operations and queue.operations[0].may_run()]
        if not ready:
            return False
        queue = max(ready, key=lambda queue: queue.rank)
        operation = queue.operations.popleft()
        try:
            operation.run()
        except Exception as error:  # Told to whoever waits next, as CUDA does.
            self._failure = self._failure or error
        return True

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise DeviceError(f"queued work has failed: {self._failure}") from self._failure
