"""Exact integer sums of dark frames, which add up in any order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.common_mode import CommonMode
from finder.common_mode_correction import CommonModeCorrection
from finder.frames import Frames, checked_frames, native_blocks
from finder.gain_bits import in_another_gain
from finder.pixel_mask import masked_pixels

HALF = 16  # A 32-bit value is high·2¹⁶ + low, so that no sum of products leaves 64 bits.
# Values of 32 bits reach 34 when they are corrected, and no sum of their products leaves 64 bits.
LARGEST_N_FRAMES = 2**26

Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ValueRange:
    """The values of each pixel that count: from `low` to `high`, both included, (y, x) int64."""

    low: Int64
    high: Int64

    def holds(self, frames: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Where a value counts, (y, x) or (frame, y, x) as `frames` is."""
        within: NDArray[np.bool_] = (frames >= self.low) & (frames <= self.high)
        return within


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
        switched: (y, x) int64, how many values were left out because they were in another gain; None where none was.
        clipped: (y, x) int64, how many others were left out because they lay beyond a range; None likewise.
    """

    n_frames: int
    low: Int64
    low_squares: Int64
    high: Int64 | None = None
    high_low: Int64 | None = None
    high_squares: Int64 | None = None
    switched: Int64 | None = None
    clipped: Int64 | None = None

    @classmethod
    def of(cls, block: ArrayLike, *, gain_bits: int = 0, within: ValueRange | None = None) -> DarkSums:
        """Sum a block of dark frames (dark_frame, y, x) of any supported integer type.

        Args:
            block: dark frames.
            gain_bits: bits above the value in a 16-bit word: values in another gain are left out.
            within: the values that count; others are left out.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the block is not (dark_frame, y, x).
        """
        frames = checked_frames(block, what="dark frames")
        return cls._of(native_blocks(frames), frames, gain_bits, within)

    @classmethod
    def of_corrected(
        cls,
        block: ArrayLike,
        x0: Int64,
        common_mode: CommonMode,
        pixel_mask: ArrayLike | None = None,
        *,
        gain_bits: int = 0,
        within: ValueRange | None = None,
    ) -> DarkSums:
        """Sum what a common mode leaves of a block of dark frames: X − X0 − c in place of X.

        Args:
            block: dark frames (dark_frame, y, x) of any supported integer type.
            x0: (y, x) int64, ADU: the `offset` of all dark frames' sums, made beforehand.
            common_mode: what moves together.
            pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked.
            gain_bits: bits above the value in a 16-bit word: values in another gain are left out.
            within: what counts of that which is left; the rest is left out.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the block is not (dark_frame, y, x), or `x0` or the mask is not (y, x).
        """
        shape = (x0.shape[0], x0.shape[1])
        frames = checked_frames(block, shape, what="dark frames")
        masked = None if pixel_mask is None else masked_pixels(pixel_mask, shape)
        correction = CommonModeCorrection(common_mode, x0, masked, gain_bits)
        return cls._of(correction.differences(frames, np.int64), frames, gain_bits, within)

    @classmethod
    def _of(
        cls, blocks: Iterable[NDArray[np.integer[Any]]], raw: Frames, gain_bits: int, within: ValueRange | None
    ) -> DarkSums:
        """Sum blocks of values that come from the frames `raw`, in order."""
        shape = raw.shape[1:]
        n_sums, n_scratch, add = (5, 3, _add_wide) if raw.dtype.itemsize > 2 else (2, 1, _add_narrow)
        sums = [np.zeros(shape, np.int64) for _ in range(n_sums)]
        scratch = [np.empty(shape, np.int64) for _ in range(n_scratch)]
        switched = np.zeros(shape, np.int64) if gain_bits else None
        clipped = None if within is None else np.zeros(shape, np.int64)
        for number, frame in enumerate(itertools.chain.from_iterable(blocks)):
            counts: NDArray[np.bool_] | None = None
            if switched is not None:
                in_other = in_another_gain(raw[number], gain_bits)
                switched += in_other
                counts = ~in_other
            if within is not None and clipped is not None:
                inside = within.holds(frame)
                clipped += ~inside if counts is None else ~inside & counts
                counts = inside if counts is None else inside & counts
            add(sums, frame, scratch, counts)
        low, low_squares, *of_high = sums
        high, high_low, high_squares = of_high or (None, None, None)
        return cls(len(raw), low, low_squares, high, high_low, high_squares, switched, clipped)

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
            _sum(self.switched, other.switched),
            _sum(self.clipped, other.clipped),
        )

    @property
    def n_values(self) -> Int64:
        """N: values summed of each pixel (y, x)."""
        n = np.full(self.shape, self.n_frames, np.int64)
        for left_out in (self.switched, self.clipped):
            if left_out is not None:
                n -= left_out
        return n

    def offset(self) -> Int64:
        """X0 = (2 ΣX + N) // (2 N): the mean, rounded to a whole number (y, x) int64; 0 where there is no value."""
        total = self.low if self.high is None else (self.high << HALF) + self.low
        n = np.maximum(self.n_values, 1)
        x0: Int64 = (2 * total + n) // (2 * n)
        return x0

    def moments_about(self, x0: Int64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """ΣY and ΣY² of Y = X − X0, exact, then rounded once to float64 (y, x)."""
        first, (high_squares, high_low, low_squares) = self._moments(x0)
        if high_squares is None or high_low is None:
            return first.astype(np.float64), low_squares.astype(np.float64)
        return first.astype(np.float64), _joined(high_squares, high_low, low_squares)

    def exact_moments_about(self, x0: Int64) -> tuple[Int64, NDArray[Any]]:
        """ΣY and ΣY² of Y = X − X0 (y, x), exact: int64, and where that may be too small Python's integers."""
        first, (high_squares, high_low, low_squares) = self._moments(x0)
        if high_squares is None or high_low is None:
            return first, low_squares
        wide = (high_squares.astype(object) << 2 * HALF) + (high_low.astype(object) << (HALF + 1))
        return first, wide + low_squares.astype(object)

    def _moments(self, x0: Int64) -> tuple[Int64, tuple[Int64 | None, Int64 | None, Int64]]:
        """ΣY, and (a, b, c) with ΣY² = a·2³² + b·2¹⁷ + c; a and b are None where they are 0."""
        n = self.n_values
        if self.high is None or self.high_low is None or self.high_squares is None:
            first = self.low - n * x0
            return first, (None, None, self.low_squares - 2 * x0 * self.low + n * x0 * x0)
        high0, low0 = x0 >> HALF, x0 & (2**HALF - 1)
        first = ((self.high - n * high0) << HALF) + (self.low - n * low0)
        # Y = (high − high0)·2¹⁶ + (low − low0), squared and summed term by term; each term fits 64 bits.
        high_squares = self.high_squares - 2 * high0 * self.high + n * high0 * high0
        high_low = self.high_low - low0 * self.high - high0 * self.low + n * high0 * low0
        low_squares = self.low_squares - 2 * low0 * self.low + n * low0 * low0
        return first, (high_squares, high_low, low_squares)


# NumPy writes into scratch: new arrays for each frame would cost more than the sums.
def _add_narrow(
    sums: list[Int64], frame: NDArray[np.integer[Any]], scratch: list[Int64], counts: NDArray[np.bool_] | None
) -> None:
    low, low_squares = sums
    (values,) = scratch
    values[:] = frame
    if counts is not None:
        values *= counts
    low += values
    low_squares += np.multiply(values, values, out=values)


def _add_wide(
    sums: list[Int64], frame: NDArray[np.integer[Any]], scratch: list[Int64], counts: NDArray[np.bool_] | None
) -> None:
    low, low_squares, high, high_low, high_squares = sums
    frame_low, frame_high, product = scratch
    frame_low[:] = frame
    if counts is not None:
        frame_low *= counts
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
