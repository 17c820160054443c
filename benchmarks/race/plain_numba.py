"""The finder as one would first write it with Numba: scalar loops over each frame, LLVM left to find vectors in them.

The same bits as the reference, for the ladder of the benchmark; nothing else uses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from finder import ClusterBatch, Clusters, FinderParameters, Pedestal
from finder.clusters import coordinate_dtype


def find_plainly(frames: Any, pedestal: Pedestal, parameters: FinderParameters) -> ClusterBatch:
    """The clusters of `frames` (frame, y, x), with a running pedestal."""
    rows, cols = parameters.cluster_size
    s1, s2 = pedestal.s1.copy(), pedestal.s2.copy()
    numbers = parameters.inverse_n_samples, parameters.squared_n_sigma, parameters.area
    positions, signal = _find(frames, pedestal.x0, s1, s2, *numbers, rows, cols)
    n_clusters = np.bincount(positions[:, 0], minlength=len(frames)).astype(np.uint32)
    coordinate = coordinate_dtype(pedestal.shape)
    found = Clusters(
        positions[:, 0].astype(np.uint32),
        positions[:, 1].astype(coordinate),
        positions[:, 2].astype(coordinate),
        signal,
        n_clusters,
    )
    after = Pedestal(pedestal.x0, s1, s2, pedestal.trained_variance, pedestal.n_samples)
    return ClusterBatch(found.frame_index, found.y, found.x, found.signal, found.n_clusters, after)


@njit(nogil=True, error_model="numpy", cache=True)
def _find(
    frames: Any, x0: Any, s1: Any, s2: Any, inv_n: Any, ns2: Any, area: Any, rows: Any, cols: Any
) -> Any:  # pragma: no cover (compiled)
    n_frames, height, width = frames.shape
    up, left = rows // 2, cols // 2
    zero = np.float32(0)
    y = np.zeros((height, width), np.float32)
    v = np.zeros((height + 2 * up, width + 2 * left), np.float32)
    row_sums = np.zeros((height + 2 * up, width), np.float32)
    row_maxima = np.zeros((height + 2 * up, width), np.float32)
    positions = np.empty((n_frames * height * width // 16 + height * width, 3), np.int64)
    signal = np.empty((len(positions), rows, cols), np.float32)
    n = 0
    for frame in range(n_frames):
        for i in range(height):
            for j in range(width):
                y[i, j] = np.float32(np.int64(frames[frame, i, j]) - x0[i, j])
                v[up + i, left + j] = y[i, j] - s1[i, j] * inv_n
        for i in range(up, up + height):
            for j in range(width):
                total, maximum = v[i, j], v[i, j]
                for k in range(1, cols):
                    total += v[i, j + k]
                    maximum = max(maximum, v[i, j + k])
                row_sums[i, j] = total
                row_maxima[i, j] = maximum
        for i in range(height):
            for j in range(width):
                total, maximum = row_sums[i, j], max(row_maxima[i, j], zero)
                for k in range(1, rows):
                    total += row_sums[i + k, j]
                    maximum = max(maximum, row_maxima[i + k, j])
                value = v[up + i, left + j]
                r, m = s1[i, j] * inv_n, s2[i, j] * inv_n
                t = max(ns2 * (m - r * r), zero)
                if value < zero and value * value > t:
                    continue
                if (maximum > zero and maximum * maximum > t) or (total > zero and total * total > area * t):
                    if value == maximum:
                        positions[n] = frame, i, j
                        signal[n] = v[i : i + rows, j : j + cols]
                        n += 1
                else:
                    s1[i, j] += value
                    s2[i, j] += y[i, j] * y[i, j] - m
    return positions[:n].copy(), signal[:n].copy()
