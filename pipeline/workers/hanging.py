"""Tasks that have been with a worker for so long that something must have hung there."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Before a batch is done nobody knows how long one takes; a file server slower than this is of no use.
SLOWEST_BYTES_PER_SECOND = 1e6
LEAST_SECONDS = 300.0
MEDIANS = 20


@dataclass(frozen=True)
class HangingTask:
    """A task that has not ended.

    Args:
        key: Dask's name of it.
        worker: Address of the worker that has it.
        seconds: For how long the worker has had it.
    """

    key: str
    worker: str
    seconds: float


class HangingTasks:
    """Notices tasks that stay with a worker for longer than they may.

    A worker is given a task before it has ended the one before, so a task may take at most half the time.

    Args:
        seconds: How long a task may be with a worker; None is 300 s and 20 times the median of the batches done,
            or, while none is, the time that its frames take at 1 MB/s.
        batch_bytes: Bytes of the frames of a batch.
    """

    def __init__(self, seconds: float | None, batch_bytes: int) -> None:
        self._seconds = seconds
        self._batch_bytes = batch_bytes
        # The last few: a run may have a million batches, and the file server may have become slower.
        self._durations: deque[float] = deque(maxlen=100)
        self._since: dict[tuple[str, str], float] = {}

    def add_duration(self, seconds: float) -> None:
        """Tell how long a batch took."""
        self._durations.append(seconds)

    @property
    def seconds(self) -> float:
        """How long a task may be with a worker."""
        if self._seconds is not None:
            return self._seconds
        if not self._durations:
            return LEAST_SECONDS + self._batch_bytes / SLOWEST_BYTES_PER_SECOND
        return LEAST_SECONDS + MEDIANS * statistics.median(self._durations)

    def update(self, now: float, processing: Mapping[str, Sequence[str]]) -> list[HangingTask]:
        """Take what each worker has at this moment, and say what has been there for too long.

        Args:
            now: The time, in s.
            processing: The keys of the tasks that each worker has.
        """
        held = {(key, worker) for worker, keys in processing.items() for key in keys}
        self._since = {task: self._since.get(task, now) for task in held}
        return [
            HangingTask(key, worker, now - since)
            for (key, worker), since in self._since.items()
            if now - since > self.seconds
        ]
