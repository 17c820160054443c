"""How often each pixel was quiet, fired or was blind: shows a pedestal that was lost, and pixels to be masked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OFTEN = 0.01  # A share of the frames.
HALF = 0.5
FEWEST_COUNTS = 10  # Fewer are no habit: in few frames 1 % is a single photon.
NEIGHBOURHOOD = 5
TIMES_THE_NEIGHBOURS = 5.0


@dataclass(frozen=True, eq=False)
class PixelActivity:
    """In how many frames of a chain each pixel went which way; masked pixels count 0 in each.

    A pixel that is not masked goes one way in each frame: there `updated`, `firing`, `blind` and `switched` add up to
    `n_frames`.

    Attributes:
        n_frames: frames counted: those given to `find`, not those that only moved the pedestal.
        updated: (y, x) uint32, frames in which the pixel was quiet: the ones it learns from, where the chain tracks.
        firing: (y, x) uint32, frames in which the pixel or the window around it was above the threshold.
        blind: (y, x) uint32, frames in which the pixel was as far below its pedestal as the threshold is above.
        centres: (y, x) uint32, frames in which the pixel was a cluster's centre; these are among `firing`.
        switched: (y, x) uint32, frames in which the pixel was in another gain, and so absent.
    """

    n_frames: int
    updated: NDArray[np.uint32]
    firing: NDArray[np.uint32]
    blind: NDArray[np.uint32]
    centres: NDArray[np.uint32]
    switched: NDArray[np.uint32]


def share_seldom_updated(activity: PixelActivity) -> float:
    """Share of the pixels, 0 to 1, updated in fewer than half of the frames they are in; NaN if no pixel counts.

    Masked pixels don't count, nor do those that were in another gain throughout.
    """
    there = activity.updated + activity.firing + activity.blind
    counted = there > 0
    if not counted.any():
        return math.nan
    return float((activity.updated[counted] < HALF * there[counted]).mean())


def often_firing(activity: PixelActivity) -> NDArray[np.bool_]:
    """Pixels (y, x) that fired in more than 1 % of the frames."""
    return _often(activity.firing, activity.n_frames)


def often_blind(activity: PixelActivity) -> NDArray[np.bool_]:
    """Pixels (y, x) that were blind in more than 1 % of the frames."""
    return _often(activity.blind, activity.n_frames)


def _often(count: NDArray[np.uint32], n_frames: int) -> NDArray[np.bool_]:
    often: NDArray[np.bool_] = count > OFTEN * n_frames
    return often


def hot_pixels(activity: PixelActivity) -> NDArray[np.bool_]:
    """Pixels (y, x) that make clusters by themselves: centres in more than 1 % of the frames, unlike their neighbours.

    Where many photons fall, every pixel is often a centre; a hot one is so five times as often as the mean of the 5×5
    pixels around it, and at least ten times.
    """
    return _standing_out(activity.centres, activity.n_frames)


def blinking_pixels(activity: PixelActivity) -> NDArray[np.bool_]:
    """Pixels (y, x) that are blind in more than 1 % of the frames, unlike their neighbours (see `hot_pixels`)."""
    return _standing_out(activity.blind, activity.n_frames)


def _standing_out(count: NDArray[np.uint32], n_frames: int) -> NDArray[np.bool_]:
    often = _often(count, n_frames) & (count >= FEWEST_COUNTS)
    if not often.any():
        return often
    reach = NEIGHBOURHOOD // 2
    # Sums over squares from sums over rectangles that begin in the corner.
    padded = np.pad(count.astype(np.int64), ((reach + 1, reach), (reach + 1, reach))).cumsum(axis=0).cumsum(axis=1)
    inside = np.pad(np.ones(count.shape, np.int64), ((reach + 1, reach), (reach + 1, reach))).cumsum(0).cumsum(1)
    around, n_around = (_square_sums(sums) - own for sums, own in ((padded, count), (inside, 1)))
    standing_out: NDArray[np.bool_] = often & (count * n_around > TIMES_THE_NEIGHBOURS * around)
    return standing_out


def _square_sums(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    size = NEIGHBOURHOOD
    result: NDArray[np.int64] = sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    return result
