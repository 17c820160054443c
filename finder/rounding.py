"""Signals as they are stored: whole ADU, or float32 as found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from finder.stored_code import load_or_compile

LIMIT = np.float32(2.0**31)  # The first float32 beyond int32.
HALF = np.float32(0.5)

_lock = threading.Lock()


class SignalRangeError(ValueError):
    """A signal is larger than the type that it was to be rounded to can hold."""


def rounded(signal: NDArray[np.float32], dtype: DTypeLike) -> NDArray[Any]:
    """`signal` as int32, rounded half away from zero, or as float32, unchanged.

    Args:
        signal: float32 of any shape, ADU.
        dtype: int32 or float32.

    Raises:
        ValueError: another dtype.
        SignalRangeError: a value that int32 cannot hold.
    """
    wanted = np.dtype(dtype)
    if wanted == np.float32:
        return signal
    if wanted != np.int32:
        raise ValueError(f"signals are stored as int32 or float32, not {wanted}")
    result = np.empty(signal.shape, np.int32)
    with _lock:
        round_half_away = _compiled_round()
    if not round_half_away(np.ascontiguousarray(signal, np.float32).reshape(-1), result.reshape(-1)):
        raise SignalRangeError("a signal does not fit int32: store the signal as float32")
    return result


def _round_half_away(source: Any, target: Any) -> Any:
    """Round `source` into `target`; whether every value fitted."""
    fits = True
    for index in range(len(source)):
        value = source[index]
        fits &= (value >= -LIMIT) & (value < LIMIT)
        whole = np.int32(value)
        # The fraction is exact in float32, where value + 0.5 would not be.
        fraction = value - np.float32(whole)
        target[index] = whole + np.int32(fraction >= HALF) - np.int32(fraction <= -HALF)
    return fits


@cache
def _compiled_round() -> Callable[..., Any]:
    from numba import types  # late, as in finder.stored_code

    array: Any = types.Array
    signature = array(types.float32, 1, "C", readonly=True), array(types.int32, 1, "C")
    return load_or_compile(_round_half_away, "round_half_away", signature, "the rounding of signals")
