"""Exact integer sums of dark frames, which add up in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.common_mode import CommonMode
from finder.common_mode_correction import CommonModeCorrection
from finder.frames import checked_frames, native_blocks
from finder.pixel_mask import masked_pixels

HALF = 16  # A 32-bit value is high·2¹⁶ + low, so that no sum of products leaves 64 bits.
# Values of 32 bits reach 34 when they are corrected, and no sum of their products leaves 64 bits.
LARGEST_N_FRAMES = 2**26

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
        return cls._of(native_blocks(frames), frames.shape, wide=frames.dtype.itemsize > 2)

    @classmethod
    def of_corrected(
        cls, block: ArrayLike, x0: Int64, common_mode: CommonMode, pixel_mask: ArrayLike | None = None
    ) -> DarkSums:
        """Sum what a common mode leaves of a block of dark frames: X − X0 − c in place of X.

        Args:
            block: dark frames (dark_frame, y, x) of any supported integer type.
            x0: (y, x) int64, ADU: the `offset` of all dark frames' sums, made beforehand.
            common_mode: what moves together.
            pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the block is not (dark_frame, y, x), or `x0` or the mask is not (y, x).
        """
        shape = (x0.shape[0], x0.shape[1])
        frames = checked_frames(block, shape, what="dark frames")
        masked = None if pixel_mask is None else masked_pixels(pixel_mask, shape)
        correction = CommonModeCorrection(common_mode, x0, masked)
        return cls._of(correction.differences(frames, np.int64), frames.shape, wide=frames.dtype.itemsize > 2)

    @classmethod
    def _of(cls, blocks: Iterable[NDArray[np.integer[Any]]], shape: tuple[int, ...], wide: bool) -> DarkSums:
        n_sums, n_scratch, add = (5, 3, _add_wide) if wide else (2, 1, _add_narrow)
        sums = [np.zeros(shape[1:], np.int64) for _ in range(n_sums)]
        scratch = [np.empty(shape[1:], np.int64) for _ in range(n_scratch)]
        for block in blocks:
            for frame in block:
                add(sums, frame, scratch)
        return cls(shape[0], *sums)

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
