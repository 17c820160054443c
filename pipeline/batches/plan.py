"""How frames are cut into batches, and which chunk of the dataset each batch's clusters go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True)
class Batch:
    """Frames ``[start, stop)`` of the archive: one chain of the pedestal, one task."""

    index: int
    start: int
    stop: int

    @property
    def n_frames(self) -> int:
        """The number of frames."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"batch {self.index} (frames {self.start}:{self.stop})"


@dataclass(frozen=True)
class BatchPlan(Sequence[Batch]):
    """The frames ``[first_frame, stop_frame)`` of an archive in batches of ``batch_size``; the last may be shorter.

    A batch is worked out when it is asked for, so that a plan of 10⁶ batches costs nothing.
    """

    first_frame: int
    stop_frame: int
    batch_size: int

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"a batch of {self.batch_size} frames was asked for: the batch size is at least 1")
        if not 0 <= self.first_frame < self.stop_frame:
            raise ValueError(f"frames {self.first_frame}:{self.stop_frame} are none")

    @property
    def n_frames(self) -> int:
        """The number of frames in all batches."""
        return self.stop_frame - self.first_frame

    def __len__(self) -> int:
        return -(-self.n_frames // self.batch_size)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = self.first_frame + index * self.batch_size
        return Batch(index, start, min(start + self.batch_size, self.stop_frame))

    def __iter__(self) -> Iterator[Batch]:
        return (self[k] for k in range(len(self)))


@dataclass(frozen=True)
class RowSpan:
    """Rows ``[start, stop)`` of the dataset: the clusters of one batch, cut where chunks of the dataset begin.

    ``head`` are the rows before the first such place, ``body`` whole chunks, ``tail`` the rows of the last chunk
    begun. A batch with no chunk beginning inside it is all head. The batch writes its body by itself; a head or a tail
    shares its chunk with other batches.
    """

    start: int
    stop: int
    rows_per_chunk: int

    @property
    def head(self) -> tuple[int, int]:
        """Rows up to where the first chunk begins."""
        return self.start, min(self._first_chunk_row, self.stop)

    @property
    def body(self) -> tuple[int, int]:
        """Rows of the chunks that lie wholly inside."""
        first = self.head[1]
        return first, max(first, self.stop // self.rows_per_chunk * self.rows_per_chunk)

    @property
    def tail(self) -> tuple[int, int]:
        """Rows after the last whole chunk."""
        return self.body[1], self.stop

    @property
    def _first_chunk_row(self) -> int:
        return -(-self.start // self.rows_per_chunk) * self.rows_per_chunk


class SharedChunk:
    """A chunk of the dataset that takes rows from several batches, collected until it is full."""

    def __init__(self, rows_per_chunk: int) -> None:
        self._rows_per_chunk = rows_per_chunk
        self._first_row = 0
        self._stop_row = 0
        self._batches: list[int] = []

    @property
    def first(self) -> int | None:
        """The first of the batches whose rows are waiting for the chunk to be full; None if there are none."""
        return self._batches[0] if self._batches else None

    @property
    def last(self) -> int | None:
        """The last of them."""
        return self._batches[-1] if self._batches else None

    def take(self, batch: int, start: int, stop: int) -> tuple[int, list[int]] | None:
        """Add the rows ``[start, stop)`` of a batch; batches come in order, their rows without a gap.

        Returns:
            Once the chunk is full: its first row and the batches that it takes rows from, in order; before that None.
        """
        if stop == start:
            return None
        if not self._batches:
            self._first_row = start
        self._batches.append(batch)
        self._stop_row = stop
        return self.flush() if stop - self._first_row == self._rows_per_chunk else None

    def flush(self) -> tuple[int, list[int]] | None:
        """What has been collected, complete or not (the end of the dataset); None if that is nothing."""
        if not self._batches:
            return None
        full = self._first_row, self._batches
        self._batches = []
        return full


def rows_written(n_clusters: Sequence[int], rows_per_chunk: int) -> list[int]:
    """How many rows of the dataset each batch writes: its own whole chunks, and the shared ones that it begins."""
    rows = [0] * len(n_clusters)
    shared = SharedChunk(rows_per_chunk)
    start = 0

    def join(chunk: tuple[int, list[int]] | None, stop: int) -> None:
        if chunk is not None:
            rows[chunk[1][0]] += stop - chunk[0]

    for batch, n in enumerate(n_clusters):
        span = RowSpan(start, start + n, rows_per_chunk)
        rows[batch] += span.body[1] - span.body[0]
        for first, stop in (span.head, span.tail):
            join(shared.take(batch, first, stop), stop)
        start = span.stop
    join(shared.flush(), start)
    return rows
