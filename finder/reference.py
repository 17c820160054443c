"""The plain reference: the design's arithmetic, one NumPy line for each of its lines.

Slow and simple, so that it can be checked by eye. Every NumPy operation below is one correctly rounded float32
operation a pixel; the other backends must give the same bits.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from finder.activity import PixelActivity
from finder.clusters import Clusters, coordinate_dtype
from finder.common_mode import common_mode_levels
from finder.frames import Frames
from finder.gain_bits import in_another_gain
from finder.interface import Chain, Finder
from finder.pedestal import Pedestal

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


class ReferenceFinder(Finder):
    """The finder in plain NumPy: what every other backend is held to."""

    backend: ClassVar[str] = "reference"

    def _open_chain(self, pedestal: Pedestal, tracking: bool) -> Chain:
        return ReferenceChain(self, pedestal, tracking)


class ReferenceChain(Chain):
    """A chain of the reference finder."""

    def __init__(self, finder: ReferenceFinder, pedestal: Pedestal, tracking: bool) -> None:
        super().__init__(finder.shape, tracking)
        self._parameters = finder.parameters
        masked = finder.pixel_mask
        self._present = np.ones(finder.shape, bool) if masked is None else ~masked
        self._start = pedestal
        self._s1 = pedestal.s1.copy()
        self._s2 = pedestal.s2.copy()
        self._n_frames = 0
        self._updated, self._firing, self._blind, self._centres, self._switched = (
            np.zeros(finder.shape, np.uint32) for _ in range(5)
        )

    @property
    def pedestal(self) -> Pedestal:
        """The pedestal now: a copy."""
        start = self._start
        return Pedestal(start.x0, self._s1.copy(), self._s2.copy(), start.trained_variance, start.n_samples)

    @property
    def activity(self) -> PixelActivity:
        """The counts so far: a copy."""
        counts = self._updated, self._firing, self._blind, self._centres, self._switched
        return PixelActivity(self._n_frames, *(count.copy() for count in counts))

    def _update(self, frames: Frames) -> None:
        for frame in frames:
            self._step(frame)

    def _find(self, frames: Frames) -> Clusters:
        rows, cols = self._parameters.cluster_size
        coordinate = coordinate_dtype(self._shape)
        ys, xs, signals = [np.empty(0, np.intp)], [np.empty(0, np.intp)], [np.empty((0, rows, cols), np.float32)]
        n_clusters = np.zeros(len(frames), np.uint32)
        for index, frame in enumerate(frames):
            is_cluster, values, quiet, below, present = self._step(frame)
            self._n_frames += 1
            self._updated += quiet
            self._blind += below
            self._firing += present & ~quiet & ~below
            self._switched += self._present & ~present
            self._centres += is_cluster
            y, x = np.nonzero(is_cluster)
            n_clusters[index] = len(y)
            ys.append(y)
            xs.append(x)
            windows = np.lib.stride_tricks.sliding_window_view(_surrounded(values, rows, cols), (rows, cols))
            signals.append(windows[y, x])
        return Clusters(
            np.repeat(np.arange(len(frames), dtype=np.uint32), n_clusters),
            np.concatenate(ys).astype(coordinate),
            np.concatenate(xs).astype(coordinate),
            np.concatenate(signals),
            n_clusters,
        )

    def _step(self, frame: NDArray[Any]) -> tuple[Bool, Float32, Bool, Bool, Bool]:
        """One frame: where its clusters are, its values above the pedestal, where it is quiet, below, and there.

        Moves the pedestal, if that is tracked.
        """
        parameters = self._parameters
        # A pixel in another gain is absent from this frame, as a masked one is from all.
        present = self._present & ~in_another_gain(frame, parameters.gain_bits)
        inv_n, ns2, area = parameters.inverse_n_samples, parameters.squared_n_sigma, parameters.area
        zero = np.float32(0)

        difference = frame.astype(np.int64) - self._start.x0
        if parameters.common_mode is not None:
            difference = difference - common_mode_levels(difference, parameters.common_mode, present)
        y = difference.astype(np.float32)
        r = self._s1 * inv_n
        v = np.where(present, y - r, zero)
        m = self._s2 * inv_n
        running = parameters.noise == "running"
        t = np.maximum(ns2 * (m - r * r), zero) if running else ns2 * self._start.trained_variance

        around = _surrounded(v, *parameters.cluster_size)
        maximum = _window_maximum(around, *parameters.cluster_size)
        total = _window_sum(around, *parameters.cluster_size)

        below = present & (v < 0) & (v * v > t)
        above = ((maximum > 0) & (maximum * maximum > t)) | ((total > 0) & (total * total > area * t))
        is_cluster = present & ~below & above & (v == maximum)
        quiet = present & ~below & ~above

        if self.tracking:
            self._s1 = np.where(quiet, self._s1 + (y - r), self._s1)
            if running:
                self._s2 = np.where(quiet, self._s2 + (y * y - m), self._s2)
        return is_cluster, v, quiet, below, present


def _surrounded(v: Float32, rows: int, cols: int) -> Float32:
    """`v` with a border of absent pixels (0), half a window wide."""
    return np.pad(v, ((rows // 2, rows // 2), (cols // 2, cols // 2)))


def _window_maximum(around: Float32, rows: int, cols: int) -> Float32:
    """Each window's maximum, at least 0 (absent pixels are 0, so they change nothing)."""
    windows = np.lib.stride_tricks.sliding_window_view(around, (rows, cols))
    maximum: Float32 = np.maximum(windows.max(axis=(2, 3)), np.float32(0))
    return maximum


def _window_sum(around: Float32, rows: int, cols: int) -> Float32:
    """Each window's sum: each window row left to right, then the rows top to bottom."""
    height, width = around.shape[0] - rows + 1, around.shape[1] - cols + 1
    total = np.zeros((height, width), np.float32)
    for row in range(rows):
        row_sum = np.zeros((height, width), np.float32)
        for col in range(cols):
            row_sum = row_sum + around[row : row + height, col : col + width]
        total = total + row_sum
    return total
