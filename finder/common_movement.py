"""How far pixels that share a row, a column or the whole frame move together from frame to frame."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FRAMES_LOOKED_AT = 16
CLIP = 3.0  # Noise widths: a photon's pixels count for no more.
NORMAL_QUARTILE = 0.6745


@dataclass(frozen=True)
class CommonMovement:
    """One standard deviation of what pixels have in common, in noise widths, beyond what independent ones would show.

    Args:
        frame: Of the whole frame.
        row, column: Of a row, of a column, beyond the whole frame's. NaN where it is not known.
    """

    frame: float
    row: float
    column: float


def common_movement(
    frames: NDArray[np.integer], centre: NDArray[np.int64], noise: NDArray[np.float32], counts: NDArray[np.bool_]
) -> CommonMovement:
    """Look at some frames for movement that pixels have in common.

    Args:
        frames: Frames that follow each other (frame, y, x); 16 of them are looked at.
        centre: Each pixel's middle value in them (y, x), ADU.
        noise: Each pixel's noise (y, x), ADU.
        counts: (y, x), True for the pixels that count.
    """
    if len(frames) < 4 or not counts.any():
        return CommonMovement(math.nan, math.nan, math.nan)
    some = frames[:: max(1, len(frames) // FRAMES_LOOKED_AT)][:FRAMES_LOOKED_AT]
    scale = np.where(counts, 1 / np.where(counts, noise, 1), 0).astype(np.float32)
    in_row, in_column = counts.sum(axis=1), counts.sum(axis=0)
    n_pixels = int(in_row.sum())
    whole = np.empty(len(some), np.float32)
    rows = np.empty((len(some), len(in_row)), np.float32)
    columns = np.empty((len(some), len(in_column)), np.float32)
    # Frame by frame: what is computed on the way stays in the cache, where all frames together would not.
    for number, frame in enumerate(some):
        widths = np.clip((frame - centre).astype(np.float32) * scale, -CLIP, CLIP)
        whole[number] = widths.sum() / n_pixels
        rows[number] = widths.sum(axis=1) - whole[number] * in_row
        columns[number] = widths.sum(axis=0) - whole[number] * in_column
    return CommonMovement(
        _beyond_chance(whole, float(n_pixels)),
        _beyond_chance(*_means(rows, in_row)),
        _beyond_chance(*_means(columns, in_column)),
    )


def _means(sums: NDArray[np.float32], n_pixels: NDArray[np.intp]) -> tuple[NDArray[np.float32], float]:
    """The means of rows or columns that have pixels, and how many a usual one has."""
    some = n_pixels > 0
    means = (sums[:, some] / n_pixels[some]).astype(np.float32)
    return means, float(np.median(n_pixels[some]))


def _beyond_chance(levels: NDArray[np.float32], n_pixels: float) -> float:
    """The levels' spread without that of a mean of so many independent pixels."""
    spread = float(np.median(np.abs(levels - np.median(levels)))) / NORMAL_QUARTILE
    return math.sqrt(max(0.0, spread**2 - 1 / n_pixels))
