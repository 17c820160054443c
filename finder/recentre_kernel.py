"""The centres of all pixels' values, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.compiled_code import Code, compiled
from finder.offset import lower_median, lower_median_among

PIXELS_AT_A_TIME = 512  # Their sums stay in the first-level cache.


def centres(values: NDArray[np.integer[Any]], reach: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
    """`plain_centre` of each pixel.

    Args:
        values: integers (frame, y, x), at least one frame.
        reach: (y, x) int64, ADU.
        rounds: how often the centres are made anew.

    Returns:
        (y, x) int64.
    """
    # One kind of array for compiled code; a copy only where it must be.
    native = np.require(values, values.dtype.newbyteorder("="), requirements=["C", "W", "A"])
    centre = lower_median(native)
    if rounds:
        flat = native.reshape(len(native), -1)
        distances, counts = np.empty((2, PIXELS_AT_A_TIME), np.int64)
        arguments = flat, np.ascontiguousarray(reach.reshape(-1)), rounds, centre.reshape(-1), distances, counts
        compiled(CENTRES, *arguments)(*arguments)
    return centre


def centres_among(
    values: NDArray[np.integer[Any]], counts: NDArray[np.bool_], reach: NDArray[np.int64], rounds: int
) -> NDArray[np.int64]:
    """`plain_centre` of each pixel, of those of its values that count.

    Args:
        values: integers (frame, pixel).
        counts: (frame, pixel), False where a value is none of the pixel's.
        reach: (pixel) int64, ADU.
        rounds: how often the centres are made anew.

    Returns:
        (pixel) int64; of a pixel without values it says nothing.
    """
    centre = lower_median_among(values, counts)
    for first in range(0, centre.size if rounds else 0, PIXELS_AT_A_TIME):
        some = slice(first, first + PIXELS_AT_A_TIME)
        of_pixels, there, within = values[:, some].astype(np.int64), counts[:, some], reach[some]
        for _ in range(rounds):
            distance = of_pixels - centre[some]
            near = there & (np.abs(distance) <= within)
            n = np.maximum(near.sum(0), 1)
            centre[some] += (2 * (distance * near).sum(0) + n) // (2 * n)
    return centre


def _clipped_means(values: Any, reach: Any, rounds: Any, centre: Any, distances: Any, counts: Any) -> None:
    """Move each centre to floor(mean + ½) of the values within reach, `rounds` times; some pixels' sums are at work."""
    n_frames, n_pixels = values.shape
    for first in range(0, n_pixels, PIXELS_AT_A_TIME):
        n = min(PIXELS_AT_A_TIME, n_pixels - first)
        for _ in range(rounds):
            distances[:] = 0
            counts[:] = 0
            for frame in range(n_frames):
                for i in range(n):
                    distance = np.int64(values[frame, first + i]) - centre[first + i]
                    near = abs(distance) <= reach[first + i]
                    distances[i] += distance * near
                    counts[i] += near
            for i in range(n):
                centre[first + i] += (2 * distances[i] + counts[i]) // (2 * counts[i])


def _function() -> Callable[..., Any]:
    return _clipped_means


CENTRES = Code("clipped_means", _function, ("recentre_kernel.py",), "the recentring of pedestals", 3)
