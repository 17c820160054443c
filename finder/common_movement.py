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
    widths = np.clip((some - centre).astype(np.float32) * scale, -CLIP, CLIP)
    in_row, in_column = counts.sum(axis=1), counts.sum(axis=0)
    whole = widths.sum(axis=(1, 2)) / counts.sum()
    left = widths - whole[:, None, None] * counts
    rows = (left.sum(axis=2) / np.maximum(in_row, 1))[:, in_row > 0]
    columns = (left.sum(axis=1) / np.maximum(in_column, 1))[:, in_column > 0]
    return CommonMovement(
        _beyond_chance(whole, float(counts.sum())),
        _beyond_chance(rows, float(np.median(in_row[in_row > 0]))),
        _beyond_chance(columns, float(np.median(in_column[in_column > 0]))),
    )


def _beyond_chance(levels: NDArray[np.float32], n_pixels: float) -> float:
    """The levels' spread without that of a mean of so many independent pixels."""
    spread = float(np.median(np.abs(levels - np.median(levels)))) / NORMAL_QUARTILE
    return math.sqrt(max(0.0, spread**2 - 1 / n_pixels))
