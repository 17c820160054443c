"""The noise of frames that hold photons, to be held against the noise of the darks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

FEWEST_FRAMES = 32
# Ranks, as shares of all values: photons push values up, and hardly reach the lower ones.
_LOW, _BELOW, _MIDDLE, _ABOVE = (0.02, 0.10), (0.20, 0.32), (0.44, 0.56), (0.68, 0.80)
_SKEWED = 1.75


@dataclass(frozen=True, eq=False)
class NoiseOfFrames:
    """The noise of pixels in frames that may hold photons, each (pixel).

    Attributes:
        noise: one standard deviation, ADU, float64.
        crowded: bool: there are so many photons that the noise comes out too high.
    """

    noise: npt.NDArray[np.float64]
    crowded: npt.NDArray[np.bool_]


def noise_of_frames(values: npt.NDArray[np.integer[Any]]) -> NoiseOfFrames:
    """The noise of each pixel from its lower values.

    It is the distance between the mean of the values of ranks 2 to 10 % and that of ranks 20 to 32 %, in units of what
    it is for a normal distribution (Blom 1958: rank k of n stands at the quantile (k − 3/8) / (n + 1/4)). Photons only
    add. In simulated frames it came out 2 % high at 2 590 photons on 400×400 pixels, 7 % at three times, 31 % at ten
    times as many, where a pixel is crowded: its upper values (ranks 68 to 80 %) lie much farther from the middle than
    its lower ones. One pixel's noise scatters by 22 % with 64 frames.

    Args:
        values: (frame, pixel), at least 32 frames.

    Raises:
        ValueError: fewer frames.
    """
    n = len(values)
    if n < FEWEST_FRAMES:
        raise ValueError(f"the noise of {n} frames is not known: it takes at least {FEWEST_FRAMES}")
    # Pixel by pixel, which sorts far faster than across.
    ordered = np.sort(np.ascontiguousarray(values.T), axis=1).T
    (low, expected_low), (below, expected_below), (middle, _), (above, _) = (
        _mean_of_ranks(ordered, *ranks) for ranks in (_LOW, _BELOW, _MIDDLE, _ABOVE)
    )
    # A whole ADU allows for values that are rounded.
    crowded = above - middle > _SKEWED * (middle - below) + 1
    return NoiseOfFrames((below - low) / (expected_below - expected_low), crowded)


def _mean_of_ranks(
    ordered: npt.NDArray[np.integer[Any]], first: float, last: float
) -> tuple[npt.NDArray[np.float64], float]:
    """The mean of values between two shares of all, and what it is for a normal distribution."""
    n, normal = len(ordered), NormalDist()
    ranks = range(math.floor(first * n), math.ceil(last * n))
    expected = [normal.inv_cdf((k + 1 - 0.375) / (n + 0.25)) for k in ranks]
    return ordered[ranks.start : ranks.stop].mean(0, dtype=np.float64), float(np.mean(expected))
