"""The lower median of each pixel's values, as it is compiled. Imported only then."""

from __future__ import annotations

from typing import Any

from finder.code_compilation import part


def search(values: Any, lowest: Any, bits: Any, median: Any, tile: Any, below: Any, tried: Any) -> None:
    """Bit by bit from the top: the largest m that has at most (n − 1) // 2 values below it is the lower median.

    Args:
        values: (frame, pixel), unsigned.
        lowest: the lowest of them, as an integer of their type.
        bits: of a value's distance from `lowest`, so many are searched.
        median: (pixel), of the values' type; zeros, which become the medians' distances from `lowest`.
        tile: (frame, pixels at a time), of the values' type: what is at work.
        below, tried: (pixels at a time), likewise.
    """
    n_frames, n_pixels = values.shape
    rank = (n_frames - 1) // 2
    at_a_time = len(below)
    zero = values.dtype.type(lowest)
    for first in range(0, n_pixels, at_a_time):
        n = min(at_a_time, n_pixels - first)
        for frame in range(n_frames):
            row = values[frame, first : first + n]
            for i in range(n):
                # The store brings back the wrap-around of the narrow type, which signed values need.
                tile[frame, i] = row[i] - zero
        best = median[first : first + n]
        for bit in range(bits - 1, -1, -1):
            step = values.dtype.type(1 << bit)
            for i in range(n):
                tried[i] = best[i] | step
            below[:] = 0
            for frame in range(n_frames):
                _count_below(tile[frame], tried, below)
            for i in range(n):
                if below[i] <= rank:
                    best[i] = tried[i]


@part
def _count_below(row: Any, limit: Any, count: Any) -> Any:
    for i in range(len(count)):
        count[i] += row[i] < limit[i]
