"""Signals as they are stored: whole ADU, or float32 as found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from finder.compiled_code import Code, compiled

LIMIT = np.float32(2.0**31)  # The first float32 beyond int32.
HALF = np.float32(0.5)


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
    fits = np.ones(1, np.bool_)
    arguments = np.ascontiguousarray(signal, np.float32).reshape(-1), result.reshape(-1), fits
    compiled(ROUNDING, *arguments)(*arguments)
    if not fits[0]:
        raise SignalRangeError("a signal does not fit int32: store the signal as float32")
    return result


def narrowed(signal: NDArray[Any]) -> NDArray[Any]:
    """The same values as int16 if all of them fit, in half the memory; else `signal` itself.

    Args:
        signal: int32 of any shape; of another type it stays as it is.
    """
    if signal.dtype != np.int32:
        return signal
    result, fits = np.empty(signal.shape, np.int16), np.ones(1, np.bool_)
    arguments = np.ascontiguousarray(signal).reshape(-1), result.reshape(-1), fits
    compiled(NARROWING, *arguments)(*arguments)
    return result if fits[0] else signal


def _round_half_away(source: Any, target: Any, all_fit: Any) -> None:
    """Round `source` into `target`; sets all_fit[0] to whether every value fitted."""
    fits = True
    for index in range(len(source)):
        value = source[index]
        fits &= (value >= -LIMIT) & (value < LIMIT)
        whole = np.int32(value)
        # The fraction is exact in float32, where value + 0.5 would not be.
        fraction = value - np.float32(whole)
        target[index] = whole + np.int32(fraction >= HALF) - np.int32(fraction <= -HALF)
    all_fit[0] = fits


def _narrow(source: Any, target: Any, all_fit: Any) -> None:
    """Copy `source` into the narrower `target`; sets all_fit[0] to whether every value fitted."""
    fits = True
    for index in range(len(source)):
        value = np.int16(source[index])
        fits &= value == source[index]
        target[index] = value
    all_fit[0] = fits


def _rounding() -> Callable[..., Any]:
    return _round_half_away


def _narrowing() -> Callable[..., Any]:
    return _narrow


ROUNDING = Code("round_half_away", _rounding, ("rounding.py",), "the rounding of signals", 2)
NARROWING = Code("narrow", _narrowing, ("rounding.py",), "the narrowing of signals", 2)
