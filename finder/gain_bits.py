"""Gain bits: which pixels a detector has read in another gain, as the top bits of its 16-bit words tell.

A Jungfrau switches a pixel that a large signal would saturate to a lower gain, frame by frame, and says so in two bits
above 14 bits of value: 00 is gain 0, in which single photons are seen, 01 gain 1, 11 gain 2. A pedestal and a noise are
those of one gain, so the finder works on gain 0, where a word is its value; a pixel in another gain is absent from that
frame.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.compiled_code import Code, compiled
from finder.frames import Frames

WORD_BITS = 16
LARGEST_GAIN_BITS = 8
_PIXELS_AT_A_TIME = 4096  # Their counts stay in the first-level cache.


def checked_gain_bits(gain_bits: int) -> int:
    """`gain_bits` as an int.

    Raises:
        ValueError: it is not a whole number from 0 to 8.
    """
    try:
        value = operator.index(gain_bits)
    except TypeError:
        value = -1
    if not 0 <= value <= LARGEST_GAIN_BITS or isinstance(gain_bits, bool):
        raise ValueError(f"gain_bits is {gain_bits!r}; it must be a whole number from 0 (none) to {LARGEST_GAIN_BITS}")
    return value


def in_another_gain(frames: Frames, gain_bits: int) -> NDArray[np.bool_]:
    """Where a pixel is not in gain 0: the plain reference.

    The bits above the value are not all 0. In frames of a wider type those are all bits from the value up.

    Args:
        frames: integers of any supported type and shape.
        gain_bits: bits above the value in a 16-bit word; 0: every pixel is in gain 0.

    Returns:
        bool, of the frames' shape.
    """
    if gain_bits == 0:
        return np.zeros(frames.shape, bool)
    # A shift to the right keeps the sign: words stored in a signed type have a gain bit where they are negative.
    switched: NDArray[np.bool_] = (frames >> (WORD_BITS - gain_bits)) != 0
    return switched


def add_switched(frames: Frames, gain_bits: int, counts: NDArray[np.uint32]) -> None:
    """Add to `counts` (y, x) in how many of the frames each pixel is in another gain.

    Args:
        frames: (frame, y, x), C-contiguous and native.
        gain_bits: bits above the value, at least 1.
        counts: uint32 (y, x), C-contiguous.
    """
    if frames.dtype.itemsize == 1:  # No bits that high.
        return
    unsigned = frames.view(f"u{frames.dtype.itemsize}").reshape(len(frames), counts.size)
    arguments = unsigned, 1 << (WORD_BITS - gain_bits), counts.reshape(-1)
    compiled(COUNTING, *arguments)(*arguments)


def _count(frames: Any, limit: Any, counts: Any) -> None:
    """Count the values from `limit` up, pixel by pixel."""
    n_frames, n_pixels = frames.shape
    lowest = frames.dtype.type(limit)
    for first in range(0, n_pixels, _PIXELS_AT_A_TIME):
        n = min(_PIXELS_AT_A_TIME, n_pixels - first)
        some = counts[first : first + n]
        for frame in range(n_frames):
            row = frames[frame, first : first + n]
            for pixel in range(n):
                some[pixel] += np.uint32(row[pixel] >= lowest)


def _function() -> Callable[..., Any]:
    return _count


COUNTING = Code("count_switched", _function, ("gain_bits.py",), "the counting of pixels in another gain", 2)
