"""Exact integer sums of dark frames, which add up in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.frames import checked_frames, native_blocks

HALF = 16  # A 32-bit value is high·2¹⁶ + low, so that no sum of products leaves 64 bits.
LARGEST_N_FRAMES = 2**29

Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DarkSums:
    """Sums over a block of dark frames, per pixel, in exact integers.

    `DarkSums.of(a) + DarkSums.of(b)` is `DarkSums.of(a and b together)`, in any order and grouping, so blocks of
    darks may be summed anywhere and merged. A pixel's value is X = high·2¹⁶ + low, with high = 0 for frames of 8 or
    16 bits, whose three arrays of high parts are left out.

    Attributes:
        n_frames: dark frames summed.
        low: Σ low (y, x) int64.
        low_squares: Σ low² (y, x) int64.
        high, high_low, high_squares: Σ high, Σ high·low, Σ high² (y, x) int64, or None where every high is 0.
    """

    n_frames: int
    low: Int64
    low_squares: Int64
    high: Int64 | None = None
    high_low: Int64 | None = None
    high_squares: Int64 | None = None

    @classmethod
    def of(cls, block: ArrayLike) -> DarkSums:
        """Sum a block of dark frames (dark_frame, y, x) of any supported integer type.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the block is not (dark_frame, y, x).
        """
        frames = checked_frames(block, what="dark frames")
        shape = frames.shape[1:]
        wide = frames.dtype.itemsize > 2
        sums = [np.zeros(shape, np.int64) for _ in range(5 if wide else 2)]
        scratch = [np.empty(shape, np.int64) for _ in range(3 if wide else 1)]
        add = _add_wide if wide else _add_narrow
        for part in native_blocks(frames):
            for frame in part:
                add(sums, frame, scratch)
        return cls(len(frames), *sums)

    @property
    def shape(self) -> tuple[int, int]:
        """(y, x) of the frames."""
        rows, cols = self.low.shape
        return rows, cols

    def __add__(self, other: DarkSums) -> DarkSums:
        if not isinstance(other, DarkSums):
            return NotImplemented
        if self.shape != other.shape:
            raise ValueError(f"dark frames of shape {self.shape} and {other.shape} cannot be summed together")
        return DarkSums(
            self.n_frames + other.n_frames,
            self.low + other.low,
            self.low_squares + other.low_squares,
            _sum(self.high, other.high),
            _sum(self.high_low, other.high_low),
            _sum(self.high_squares, other.high_squares),
        )

    def offset(self) -> Int64:
        """X0 = (2 ΣX + N) // (2 N): the mean, rounded to a whole number (y, x) int64."""
        total = self.low if self.high is None else (self.high << HALF) + self.low
        x0: Int64 = (2 * total + self.n_frames) // (2 * self.n_frames)
        return x0

    def moments_about(self, x0: Int64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """ΣY and ΣY² of Y = X − X0, exact, then rounded once to float64 (y, x)."""
        n = self.n_frames
        if self.high is None or self.high_low is None or self.high_squares is None:
            first = self.low - n * x0
            second = self.low_squares - 2 * x0 * self.low + n * x0 * x0
            return first.astype(np.float64), second.astype(np.float64)
        high0, low0 = x0 >> HALF, x0 & (2**HALF - 1)
        first = ((self.high - n * high0) << HALF) + (self.low - n * low0)
        # Y = (high − high0)·2¹⁶ + (low − low0), squared and summed term by term; each term fits 64 bits.
        high_squares = self.high_squares - 2 * high0 * self.high + n * high0 * high0
        high_low = self.high_low - low0 * self.high - high0 * self.low + n * high0 * low0
        low_squares = self.low_squares - 2 * low0 * self.low + n * low0 * low0
        return first.astype(np.float64), _joined(high_squares, high_low, low_squares)


# NumPy writes into scratch: new arrays for each frame would cost more than the sums.
def _add_narrow(sums: list[Int64], frame: NDArray[np.integer[Any]], scratch: list[Int64]) -> None:
    low, low_squares = sums
    (values,) = scratch
    values[:] = frame
    low += values
    low_squares += np.multiply(values, values, out=values)


def _add_wide(sums: list[Int64], frame: NDArray[np.integer[Any]], scratch: list[Int64]) -> None:
    low, low_squares, high, high_low, high_squares = sums
    frame_low, frame_high, product = scratch
    frame_low[:] = frame
    np.right_shift(frame_low, HALF, out=frame_high)
    frame_low &= 2**HALF - 1
    low += frame_low
    high += frame_high
    low_squares += np.multiply(frame_low, frame_low, out=product)
    high_low += np.multiply(frame_high, frame_low, out=product)
    high_squares += np.multiply(frame_high, frame_high, out=product)


def _joined(high_squares: Int64, high_low: Int64, low_squares: Int64) -> NDArray[np.float64]:
    """high_squares·2³² + high_low·2¹⁷ + low_squares, rounded once to float64."""
    fits = (high_squares < 2**29) & (np.abs(high_low) < 2**44) & (low_squares < 2**61)
    joined = (np.where(fits, high_squares, 0) << 2 * HALF) + (np.where(fits, high_low, 0) << (HALF + 1))
    joined += np.where(fits, low_squares, 0)
    result = joined.astype(np.float64)
    for pixel in zip(
        *np.nonzero(~fits), strict=True
    ):  # Rare: noise of thousands of ADU. Python's integers have no end.
        a, b, c = (int(part[pixel]) for part in (high_squares, high_low, low_squares))
        result[pixel] = float((a << 2 * HALF) + (b << (HALF + 1)) + c)
    return result


def _sum(a: Int64 | None, b: Int64 | None) -> Int64 | None:
    if a is None or b is None:
        return b if a is None else a
    total: Int64 = a + b
    return total
