"""The clusters of a call while they are being found: arrays that grow, and give back what they did not need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.clusters import Clusters, coordinate_dtype
from finder.kernel_types import TILE_ROWS, Found

GROWTH = 1.5
SPARE = 1.1
SPARE_CLUSTERS = 2  # A window's rows are copied in groups of four: a few values beyond the last cluster's.


class KeptClusters:
    """Room for the clusters of `n_frames` frames of `shape` (y, x), at first for about `clusters_a_frame`.

    The windows have (rows, columns) `window`.

    Memory that is never written to costs nothing, and the arrays are cut in place, so a generous guess is free.

    Attributes:
        found: the arrays.
        room: clusters they have room for.
        n_found: clusters in them.
    """

    def __init__(self, n_frames: int, shape: tuple[int, int], window: tuple[int, int], clusters_a_frame: float) -> None:
        self._window = window
        self._tile = TILE_ROWS * shape[1]
        self.n_found = 0
        self.room = self._tile + int(n_frames * clusters_a_frame * SPARE)
        coordinate = coordinate_dtype(shape)
        self.found = Found(
            frame_index=np.empty(self.room, np.uint32),
            y=np.empty(self.room, coordinate),
            x=np.empty(self.room, coordinate),
            signal=np.empty(self._n_values(self.room), np.float32),
            n_clusters=np.zeros(n_frames, np.uint32),
        )

    def make_room(self, wanted: int = 0) -> None:
        """Room for so many more clusters, and for the next tile at least, even if each of its pixels is a cluster."""
        self._resize(max(int(self.room * GROWTH), self.n_found + max(wanted, self._tile)))

    def clusters(self) -> Clusters:
        """The clusters found, in arrays of their exact size; this object is then spent."""
        self._resize(self.n_found, spare=0)
        found = self.found
        signal = found.signal.reshape(-1, *self._window)
        return Clusters(found.frame_index, found.y, found.x, signal, found.n_clusters)

    def _resize(self, room: int, spare: int = SPARE_CLUSTERS) -> None:
        # In place: the C library moves or cuts large blocks by their pages, without copying. Nobody else has seen them.
        self.room = room
        arrays: list[NDArray[Any]] = [self.found.frame_index, self.found.y, self.found.x]
        for array in arrays:
            array.resize(room, refcheck=False)
        self.found.signal.resize(self._n_values(room, spare), refcheck=False)

    def _n_values(self, clusters: int, spare: int = SPARE_CLUSTERS) -> int:
        rows, cols = self._window
        return (clusters + spare) * rows * cols
