"""Signals as they are stored: whole ADU, or float32 as found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK = 1 << 15  # Values at a time, so that the passes stay in cache.


def rounded(signal: NDArray[np.float32], dtype: DTypeLike) -> NDArray[Any]:
    """`signal` as int32, rounded half away from zero, or as float32, unchanged.

    Args:
        signal: float32 of any shape, ADU.
        dtype: int32 or float32.

    Raises:
        ValueError: another dtype, or a value that int32 cannot hold.
    """
    wanted = np.dtype(dtype)
    if wanted == np.float32:
        return signal
    if wanted != np.int32:
        raise ValueError(f"signals are stored as int32 or float32, not {wanted}")
    result = np.empty(signal.shape, np.int32)
    source, target = np.ascontiguousarray(signal).reshape(-1), result.reshape(-1)
    for first in range(0, len(source), BLOCK):
        block = source[first : first + BLOCK]
        if not ((block >= np.float32(-(2.0**31))) & (block < np.float32(2.0**31))).all():
            raise ValueError("a signal does not fit int32: store the signal as float32")
        # The fraction is exact in float32, where block + 0.5 would not be.
        whole = np.trunc(block)
        away = (np.abs(block - whole) >= np.float32(0.5)) * np.copysign(np.float32(1), block)
        target[first : first + BLOCK] = whole + away
    return result
