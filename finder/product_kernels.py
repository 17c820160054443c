"""The loops that count clusters, as they are compiled; `finder.products` says what they count. Imported only then."""

from __future__ import annotations

from typing import Any

import numpy as np

from finder.code_compilation import part


def count_sums(windows: Any, low: Any, width: Any, counts: Any) -> Any:
    """Add each window's sum (cluster, pixel) to its bin; the last two of `counts` are those below and above."""
    n = len(counts) - 2
    area = windows.shape[1]
    for cluster in range(len(windows)):
        total = np.int64(0)
        for pixel in range(area):
            total += windows[cluster, pixel]
        place = total - low
        if place < 0:
            counts[n] += 1
        elif place >= n * width:
            counts[n + 1] += 1
        else:
            counts[place // width if width > 1 else place] += 1


def count_hits(y: Any, x: Any, counts: Any) -> Any:
    """Add each centre to its pixel (y, x)."""
    for cluster in range(len(y)):
        counts[y[cluster], x[cluster]] += 1


def count_eta(windows: Any, bins: Any, counts: Any) -> Any:
    """Add each window's eta to its bin (eta_y · bins + eta_x); the last of `counts` are those without one."""
    cy, cx = windows.shape[1] // 2, windows.shape[2] // 2
    for cluster in range(len(windows)):
        window = windows[cluster]
        centre = np.int64(window[cy, cx])
        low_y, high_y = np.int64(window[cy - 1, cx]), np.int64(window[cy + 1, cx])
        low_x, high_x = np.int64(window[cy, cx - 1]), np.int64(window[cy, cx + 1])
        # The centre is in all four squares.
        first = low_y + low_x + window[cy - 1, cx - 1]
        second = low_y + high_x + window[cy - 1, cx + 1]
        third = high_y + low_x + window[cy + 1, cx - 1]
        fourth = high_y + high_x + window[cy + 1, cx + 1]
        largest, is_high_y, is_high_x = first, False, False
        if second > largest:
            largest, is_high_x = second, True
        if third > largest:
            largest, is_high_y, is_high_x = third, True, False
        if fourth > largest:
            largest, is_high_y, is_high_x = fourth, True, True
        right, sum_x = (high_x, centre + high_x) if is_high_x else (centre, low_x + centre)
        upper, sum_y = (high_y, centre + high_y) if is_high_y else (centre, low_y + centre)
        if sum_x == 0 or sum_y == 0:
            counts[bins * bins] += 1
            continue
        counts[_place(upper, sum_y, bins) * bins + _place(right, sum_x, bins)] += 1


@part
def _place(part: Any, total: Any, bins: Any) -> Any:
    """floor(bins · (part/total + 1/4) / (3/2)) within the bins, exact."""
    above, below = bins * (4 * part + total), 6 * total
    if below < 0:
        above, below = -above, -below
    if above < 0:
        return 0
    return min(above // below, bins - 1)
