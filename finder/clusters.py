"""What a finder gives: the clusters of a run of frames."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.pedestal import Pedestal

LARGEST_UINT16 = 65535


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of a run of frames, sorted by (frame, y, x).

    Attributes:
        frame_index: (cluster) uint32, the position in the frames given.
        y, x: (cluster) the centre's row and column, uint16 (uint32 where a side has more than 65 535 pixels).
        signal: (cluster, cluster_y, cluster_x) float32, ADU: the pedestal-subtracted window, 0 where there is no pixel.
        n_clusters: (frame) uint32.
    """

    frame_index: NDArray[np.uint32]
    y: NDArray[np.unsignedinteger[Any]]
    x: NDArray[np.unsignedinteger[Any]]
    signal: NDArray[np.float32]
    n_clusters: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.frame_index)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays together."""
        return sum(int(getattr(self, field.name).nbytes) for field in fields(Clusters))


@dataclass(frozen=True, eq=False)
class ClusterBatch(Clusters):
    """Clusters, and the pedestal after the last frame."""

    pedestal: Pedestal


def coordinate_dtype(shape: tuple[int, int]) -> np.dtype[np.unsignedinteger[Any]]:
    """The type of a cluster's y and x on frames of `shape` (y, x)."""
    return np.dtype(np.uint16 if max(shape) <= LARGEST_UINT16 else np.uint32)
