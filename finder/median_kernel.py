"""The lower median of each pixel's values, compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, typeof

from finder.stored_code import load_or_compile

# Pixels whose values are searched at a time: their counts stay in the first-level cache.
PIXELS_AT_A_TIME = 2048


@cache
def compiled_lower_median(dtype: np.dtype[np.unsignedinteger[Any]]) -> Callable[..., Any]:
    """The search for values (frame, pixel) of an unsigned `dtype`: `search(values, lowest, bits)` gives (pixel).

    `bits` of a value's distance from `lowest` are searched; the result is that distance.
    """
    arguments = (np.zeros((1, 1), dtype), dtype.type(0), 0)
    signature = tuple(typeof(argument) for argument in arguments)
    return load_or_compile(_lower_median, "lower_median", signature, "the median of a batch's first frames")


def _lower_median(values: Any, lowest: Any, bits: Any) -> Any:
    """Bit by bit from the top: the largest m that has at most (n − 1) // 2 values below it is the lower median."""
    n_frames, n_pixels = values.shape
    rank = (n_frames - 1) // 2
    median = np.zeros(n_pixels, values.dtype)
    tile = np.empty((n_frames, PIXELS_AT_A_TIME), values.dtype)
    below = np.empty(PIXELS_AT_A_TIME, values.dtype)
    tried = np.empty(PIXELS_AT_A_TIME, values.dtype)
    for first in range(0, n_pixels, PIXELS_AT_A_TIME):
        n = min(PIXELS_AT_A_TIME, n_pixels - first)
        for frame in range(n_frames):
            # The store brings back the wrap-around of the narrow type, which signed values need.
            tile[frame, :n] = values[frame, first : first + n] - lowest
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
    return median


@njit(nogil=True)
def _count_below(row: Any, limit: Any, count: Any) -> Any:
    for i in range(PIXELS_AT_A_TIME):
        count[i] += row[i] < limit[i]
