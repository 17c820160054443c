"""The CPU finder."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from finder.clusters import Clusters, coordinate_dtype
from finder.frames import Frames, native_blocks
from finder.interface import Chain, Finder
from finder.pedestal import Pedestal


class CpuFinder(Finder):
    """The finder on one core, compiled by Numba."""

    backend: ClassVar[str] = "cpu"

    def _open_chain(self, pedestal: Pedestal) -> Chain:
        return CpuChain(self, pedestal)


class CpuChain(Chain):
    """A chain of the CPU finder."""

    def __init__(self, finder: CpuFinder, pedestal: Pedestal) -> None:
        super().__init__(finder.shape)
        self._parameters = finder.parameters
        masked = finder.pixel_mask
        self._present = np.ones(finder.shape, bool) if masked is None else ~masked
        self._start = pedestal
        self._s1, self._s2 = pedestal.s1.copy(), pedestal.s2.copy()
        self._threshold = self._parameters.squared_n_sigma * pedestal.trained_variance
        rows, cols = self._parameters.cluster_size
        self._values = np.zeros((finder.shape[0] + rows - 1, finder.shape[1] + cols - 1), np.float32)
        self._is_cluster = np.zeros(finder.shape, np.bool_)

    @property
    def pedestal(self) -> Pedestal:
        """The pedestal now: a copy."""
        start = self._start
        return Pedestal(start.x0, self._s1.copy(), self._s2.copy(), start.trained_variance, start.n_samples)

    def _find(self, frames: Frames) -> Clusters:
        rows, cols = self._parameters.cluster_size
        coordinate = coordinate_dtype(self._shape)
        ys, xs, signals = [np.empty(0, np.intp)], [np.empty(0, np.intp)], [np.empty((0, rows, cols), np.float32)]
        windows = np.lib.stride_tricks.sliding_window_view(self._values, (rows, cols))
        for block in native_blocks(frames):
            for frame in block:
                self._step(frame)
                y, x = np.nonzero(self._is_cluster)
                ys.append(y)
                xs.append(x)
                signals.append(windows[y, x])
        n_clusters = np.array([len(y) for y in ys[1:]], np.uint32)
        return Clusters(
            np.repeat(np.arange(len(frames), dtype=np.uint32), n_clusters),
            np.concatenate(ys).astype(coordinate),
            np.concatenate(xs).astype(coordinate),
            np.concatenate(signals),
            n_clusters,
        )

    def _step(self, frame: NDArray[Any]) -> None:
        parameters = self._parameters
        _step(
            frame,
            self._start.x0,
            self._s1,
            self._s2,
            self._threshold,
            self._present,
            parameters.noise == "running",
            parameters.inverse_n_samples,
            parameters.squared_n_sigma,
            parameters.area,
            parameters.cluster_size,
            self._values,
            self._is_cluster,
        )


@njit(nogil=True, error_model="numpy")
def _step(
    frame: Any,
    x0: Any,
    s1: Any,
    s2: Any,
    threshold: Any,
    present: Any,
    running: Any,
    inv_n: Any,
    ns2: Any,
    area: Any,
    cluster_size: Any,
    values: Any,
    is_cluster: Any,
) -> None:
    rows, cols = cluster_size
    up, left = rows // 2, cols // 2
    zero = np.float32(0)
    for i in range(frame.shape[0]):
        for j in range(frame.shape[1]):
            y = np.float32(np.int64(frame[i, j]) - x0[i, j])
            values[i + up, j + left] = y - s1[i, j] * inv_n if present[i, j] else zero
    for i in range(frame.shape[0]):
        for j in range(frame.shape[1]):
            is_cluster[i, j] = False
            if not present[i, j]:
                continue
            v = values[i + up, j + left]
            maximum = zero
            total = zero
            for a in range(rows):
                row_sum = zero
                for b in range(cols):
                    value = values[i + a, j + b]
                    row_sum += value
                    maximum = max(maximum, value)
                total += row_sum
            r = s1[i, j] * inv_n
            m = s2[i, j] * inv_n
            t = threshold[i, j]
            if running:
                t = max(ns2 * (m - r * r), zero)
            if v < zero and v * v > t:
                continue
            if (maximum > zero and maximum * maximum > t) or (total > zero and total * total > area * t):
                is_cluster[i, j] = v == maximum
                continue
            y = np.float32(np.int64(frame[i, j]) - x0[i, j])
            s1[i, j] += y - r
            if running:
                s2[i, j] += y * y - m
