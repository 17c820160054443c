"""The clusters of one batch as a worker holds them between finding and writing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import coordinate_dtype

Indices = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class ClusterRows:
    """Rows of the dataset.

    Args:
        frame_index: uint32 (cluster): position along the dataset's ``frame``.
        y: Row of the centre (cluster).
        x: Column of the centre (cluster).
        signal: Window (cluster, cluster_y, cluster_x) in ADU, of the dataset's type or narrowed (`finder.rounding`).
    """

    frame_index: npt.NDArray[np.uint32]
    y: Indices
    x: Indices
    signal: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.frame_index)

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in (self.frame_index, self.y, self.x, self.signal))

    def __getitem__(self, rows: slice) -> ClusterRows:
        return ClusterRows(self.frame_index[rows], self.y[rows], self.x[rows], self.signal[rows])

    @staticmethod
    def concatenate(parts: Sequence[ClusterRows]) -> ClusterRows:
        """The rows of all parts, in their order; of one part without a copy."""
        if len(parts) == 1:
            return parts[0]
        return ClusterRows(
            np.concatenate([part.frame_index for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.x for part in parts]),
            np.concatenate([part.signal for part in parts]),
        )

    def copy(self) -> ClusterRows:
        """The same rows in memory of their own, so that a small part does not keep a large array alive."""
        return ClusterRows(self.frame_index.copy(), self.y.copy(), self.x.copy(), self.signal.copy())


def no_rows(frame_shape: tuple[int, int], cluster_size: tuple[int, int], signal_dtype: str) -> ClusterRows:
    """No row, of the types that clusters on such frames have."""
    none = np.empty(0, coordinate_dtype(frame_shape))
    return ClusterRows(np.empty(0, np.uint32), none, none, np.empty((0, *cluster_size), signal_dtype))


class FoundBatch:
    """The clusters of one batch, in the blocks in which they were found: joining them would hold them twice.

    Args:
        blocks: Rows of successive blocks of frames.
        template: Rows of no cluster with the right types, for a batch in which nothing was found.
    """

    def __init__(self, blocks: Iterable[ClusterRows], template: ClusterRows) -> None:
        self._blocks = [block for block in blocks if len(block)] or [template]
        # First row of each block, and the end of the last.
        self._offsets = np.concatenate([[0], np.cumsum([len(block) for block in self._blocks])])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    @property
    def nbytes(self) -> int:
        """Bytes in memory; Dask is told the same by ``__sizeof__``."""
        return sum(block.__sizeof__() for block in self._blocks)

    def __sizeof__(self) -> int:
        return self.nbytes

    def rows(self, start: int, stop: int) -> ClusterRows:
        """Rows ``[start, stop)`` of the batch."""
        first = min(int(np.searchsorted(self._offsets, start, side="right")) - 1, len(self._blocks) - 1)
        last = max(int(np.searchsorted(self._offsets, stop, side="left")), first + 1)
        parts = [
            block[max(start - offset, 0) : max(stop - offset, 0)]
            for block, offset in zip(self._blocks[first:last], self._offsets[first:last].tolist(), strict=True)
        ]
        return ClusterRows.concatenate(parts)


@dataclass(frozen=True)
class Edges:
    """The rows of a batch that share a chunk with other batches' (see :class:`pipeline.batches.plan.RowSpan`)."""

    head: ClusterRows
    tail: ClusterRows

    def __sizeof__(self) -> int:
        return self.head.__sizeof__() + self.tail.__sizeof__()
