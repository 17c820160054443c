"""Whether dark frames are what a pedestal can be trained on: no photons among them, and no step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from finder.dark_sums import DarkSums, ValueRange
from finder.frames import checked_frames
from finder.gain_bits import in_another_gain

GROUPS = 4
"""Darks are compared with each other in so many runs of them."""
OUTLIER_WIDTHS = 7.0
"""Of Gaussian noise not one value in 10¹¹ lies so far from the mean."""
# A value that stands alone lies at most √(N − 1) of the noise that it itself has raised from the mean.
_FEWEST_DARKS = 64
_ABOVE_ALL = np.int64(2**40)
# Means of fewer scatter, and move with a common mode.
_FEWEST_IN_A_GROUP = 16


@dataclass(frozen=True, eq=False)
class DarkBlock:
    """What there is to know of a run of dark frames, each (y, x).

    Attributes:
        sums: their exact sums.
        lowest, highest: the lowest and the highest value of each pixel, int64, ADU.
    """

    sums: DarkSums
    lowest: npt.NDArray[np.int64]
    highest: npt.NDArray[np.int64]

    @classmethod
    def of(cls, frames: npt.ArrayLike, *, gain_bits: int = 0, within: ValueRange | None = None) -> DarkBlock:
        """Look at dark frames (dark_frame, y, x) of any supported integer type, at least one.

        Args:
            frames: the darks.
            gain_bits, within: which values count, as in `DarkSums.of`.

        Raises:
            TypeError, ValueError: as `DarkSums.of`.
        """
        checked = checked_frames(frames, what="dark frames")
        sums = DarkSums.of(checked, gain_bits=gain_bits, within=within)
        if not gain_bits and within is None:
            return cls(sums, checked.min(0).astype(np.int64), checked.max(0).astype(np.int64))
        lowest, highest = np.full(sums.shape, _ABOVE_ALL), np.full(sums.shape, -_ABOVE_ALL)
        for frame in checked:
            counts = ~in_another_gain(frame, gain_bits)
            if within is not None:
                counts &= within.holds(frame)
            np.minimum(lowest, frame, out=lowest, where=counts)
            np.maximum(highest, frame, out=highest, where=counts)
        return cls(sums, lowest, highest)


@dataclass(frozen=True)
class DarkQuality:
    """How good dark frames are; NaN where they are too few to say.

    Attributes:
        n_darks: how many there are.
        outliers: share of pixels, 0 to 1, of which a value lies more than 7 noise widths from the mean.
        step: how far the pedestal moved between the runs of darks, noise widths: the median over pixels.
        pixels_stepped: share of pixels, 0 to 1, that moved by more than one noise width, and more than by chance.
    """

    n_darks: int
    outliers: float
    step: float
    pixels_stepped: float


def quality_of_darks(blocks: Sequence[DarkBlock], masked: npt.NDArray[np.bool_] | None = None) -> DarkQuality:
    """Judge dark frames by their blocks, in the order in which they were taken.

    Args:
        blocks: at least one, together at least two darks.
        masked: bool (y, x), True where masked; such pixels and those without noise don't count.
    """
    total = reduce(add, (block.sums for block in blocks))
    mean, noise = mean_and_noise(total)
    # Of fewer than two values, as of one in another gain throughout, there is no noise.
    counts = noise > 0
    if masked is not None:
        counts &= ~masked
    n = total.n_frames
    if not counts.any():
        return DarkQuality(n, math.nan, math.nan, math.nan)
    outliers = math.nan
    if n >= _FEWEST_DARKS:
        highest = np.maximum.reduce([block.highest for block in blocks])
        lowest = np.minimum.reduce([block.lowest for block in blocks])
        reach = OUTLIER_WIDTHS * noise
        outliers = float(((highest - mean > reach) | (mean - lowest > reach))[counts].mean())
    step, stepped = _step(_groups(blocks, n), mean, noise, counts)
    return DarkQuality(n, outliers, step, stepped)


def mean_and_noise(sums: DarkSums) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and noise (standard deviation) of dark frames, each (y, x), ADU."""
    x0 = sums.offset()
    n_values = np.maximum(sums.n_values, 1)
    first, second = (moment / n_values for moment in sums.moments_about(x0))
    return x0 + first, np.sqrt(np.maximum(second - first**2, 0))


def _groups(blocks: Sequence[DarkBlock], n_darks: int) -> list[DarkSums]:
    """Sums of up to four runs of darks, as equal as the blocks allow."""
    groups: dict[int, DarkSums] = {}
    done = 0
    for block in blocks:
        middle = done + block.sums.n_frames / 2
        group = int(GROUPS * middle / n_darks)
        groups[group] = groups[group] + block.sums if group in groups else block.sums
        done += block.sums.n_frames
    return [sums for sums in groups.values() if sums.n_frames >= _FEWEST_IN_A_GROUP]


def _step(
    groups: list[DarkSums], mean: npt.NDArray[Any], noise: npt.NDArray[Any], counts: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    # A pixel that was often in another gain says nothing of a step.
    counts = counts & np.logical_and.reduce([sums.n_values >= _FEWEST_IN_A_GROUP for sums in groups])
    if len(groups) < 2 or not counts.any():
        return math.nan, math.nan
    moved = np.stack([(mean_and_noise(sums)[0] - mean)[counts] / noise[counts] for sums in groups])
    medians = np.median(moved, axis=1)
    # In the order of time, so that the step has a sign.
    first, last = sorted((int(medians.argmin()), int(medians.argmax())))
    chance = 5 * math.sqrt(2 / min(sums.n_frames for sums in groups))
    return float(medians[last] - medians[first]), float((np.ptp(moved, axis=0) > 1 + chance).mean())
