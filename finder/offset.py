"""The offset of a pedestal from the frames that it is about to be used on: shows darks that no longer fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from finder.common_mode import CommonMode
from finder.common_mode_correction import CommonModeCorrection
from finder.common_movement import CommonMovement, common_movement
from finder.compiled_code import Code, compiled
from finder.gain_bits import in_another_gain

if TYPE_CHECKING:
    from finder.pedestal import Pedestal

FRAMES_OF_OFFSET = 64
_FEWEST_VALUES = 1000
# A pixel's median of so many frames lies within one noise width by more than four of its standard deviations.
_FEWEST_FRAMES_OF_A_PIXEL = 32
# Pixels whose values are searched at a time: their counts stay in the first-level cache.
_SEARCHED_AT_A_TIME = 2048
# Pixels whose values are sorted at a time.
_SORTED_AT_A_TIME = 2048


@dataclass(frozen=True)
class Offset:
    """How far a pedestal is off before a batch; a pixel's own offset is (its lower median − trained mean) / noise.

    Args:
        median: Median over pixels of their offsets, in noise widths; NaN if no pixel counts.
        pixels_off: Share of pixels, 0 to 1, that are more than one noise width off: shows a part of a detector (one
            tap, one module) that the median does not. NaN if no pixel counts.
    """

    median: float
    pixels_off: float


class OffsetMeter:
    """Measures how far a pedestal is off before a batch, from the batch's first 64 frames.

    A median over frames does not mind the photons as long as a pixel is hit in fewer than half of them. Pixels that are
    masked or have no noise don't count.

    Args:
        pedestal: The trained pedestal.
        masked: bool (y, x), True where masked; or None.
        common_mode: What moves together, as the finder's parameters have it; it is left out of the offset.
        gain_bits: Likewise; values in another gain don't count.
    """

    def __init__(
        self,
        pedestal: Pedestal,
        masked: npt.NDArray[np.bool_] | None = None,
        common_mode: CommonMode | None = None,
        gain_bits: int = 0,
    ) -> None:
        self._pedestal = pedestal
        self._masked = masked
        self._common_mode = common_mode
        self._gain_bits = gain_bits
        self._frames: npt.NDArray[np.integer[Any]] | None = None
        self._n_frames = 0

    def add(self, frames: npt.NDArray[np.integer[Any]]) -> None:
        """Take the next frames (frame, y, x) of the batch, in order; beyond the 64th they are ignored."""
        if self._frames is None:
            self._frames = np.empty((FRAMES_OF_OFFSET, *frames.shape[1:]), frames.dtype.newbyteorder("="))
        if self._n_frames == FRAMES_OF_OFFSET:
            return
        for name in ("_switched", "_values", "_median"):  # They are of the frames so far.
            self.__dict__.pop(name, None)
        wanted = min(len(frames), FRAMES_OF_OFFSET - self._n_frames)
        self._frames[self._n_frames : self._n_frames + wanted] = frames[:wanted]
        self._n_frames += wanted

    def offset(self, pedestal: Pedestal | None = None) -> Offset:
        """The offset of the frames so far from the trained pedestal, or from another one of the same frames.

        Args:
            pedestal: The other one, such as the trained one after it was moved to these frames.
        """
        other = self._pedestal if pedestal is None else pedestal
        counts = self._counts(other)
        if self._n_frames == 0 or not counts.any():
            return Offset(math.nan, math.nan)
        noise = other.noise
        offsets = (self._median - other.mean.astype(np.float64))[counts] / noise[counts]
        return Offset(float(np.median(offsets)), float((np.abs(offsets) > 1).mean()))

    def common_movement(self) -> CommonMovement:
        """What pixels of a row, a column or the frame have in common in the frames so far, less the common mode."""
        if self._n_frames == 0:
            return CommonMovement(math.nan, math.nan, math.nan)
        values = self._values
        if self._switched is not None:
            values = np.where(self._switched, self._median, values)
        return common_movement(values, self._median, self._pedestal.noise, self._counts(self._pedestal))

    def _counts(self, pedestal: Pedestal) -> npt.NDArray[np.bool_]:
        alive: npt.NDArray[np.bool_] = pedestal.noise > 0
        if self._switched is not None:
            alive &= ~self._switched.all(0)
        return alive if self._masked is None else alive & ~self._masked

    @cached_property
    def _switched(self) -> npt.NDArray[np.bool_] | None:
        """Where a value of the frames so far is in another gain; None where none is."""
        if not self._gain_bits or self._frames is None:
            return None
        switched = in_another_gain(self._frames[: self._n_frames], self._gain_bits)
        return switched if switched.any() else None

    @cached_property
    def _values(self) -> npt.NDArray[np.integer[Any]]:
        """The frames, without the common mode."""
        assert self._frames is not None
        frames = self._frames[: self._n_frames]
        if self._common_mode is None:
            return frames
        correction = CommonModeCorrection(self._common_mode, self._pedestal.x0, self._masked, self._gain_bits)
        values = correction.corrected(frames)
        values += self._pedestal.x0
        return values

    @cached_property
    def _median(self) -> npt.NDArray[np.int64]:
        median = lower_median(self._values)
        if self._switched is not None:
            some = self._switched.any(0)
            median[some] = lower_median_among(self._values[:, some], ~self._switched[:, some])
        return median


def offset_by_chance(n_frames: int, n_pixels: int) -> Offset:
    """The most that a pedestal which fits is likely to show.

    The lower median of an even number n of values lies below the middle, at the expected place of the n/2-th of n
    normal values (Blom 1958: the quantile (k − 3/8) / (n + 1/4)); and medians of few values scatter, by √(π/2) times
    what a mean of them would.

    Args:
        n_frames: Frames of the batch; from the 64th on they don't matter.
        n_pixels: Pixels that count.

    Returns:
        The median with five of its standard deviations, infinite where values are so few that one photon among them
        could pass for an offset; and no pixels off, or infinitely many where frames are too few to judge single pixels.
    """
    n = min(n_frames, FRAMES_OF_OFFSET)
    if n * n_pixels < _FEWEST_VALUES:
        return Offset(math.inf, math.inf)
    lower = 0.0 if n % 2 else -NormalDist().inv_cdf((n / 2 - 0.375) / (n + 0.25))
    median = lower + 5 * (math.pi / 2) / math.sqrt(n * n_pixels)
    return Offset(median, 0.0 if n >= _FEWEST_FRAMES_OF_A_PIXEL else math.inf)


def lower_median(frames: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """The lower median of each pixel's values: the element (n − 1) // 2 of its n values in order.

    Args:
        frames: Integers of 8 to 64 bits (frame, y, x), in any byte order; at least one frame.

    Returns:
        int64 (y, x).
    """
    # Searched from the lowest value up, so that unsigned arithmetic serves signed values too; only the bits in which
    # values differ are searched.
    # Frames are counted in their own type, which must hold as many.
    wide_enough = np.min_scalar_type(len(frames)).itemsize
    if frames.dtype.itemsize < wide_enough:
        frames = frames.astype(f"i{wide_enough}")
    lowest = int(frames.min())
    bits = (int(frames.max()) - lowest).bit_length()
    native = frames.dtype.newbyteorder("=")
    flat = np.require(frames.reshape(len(frames), -1), native, requirements=["C", "W", "A"])
    unsigned = flat.view(f"u{frames.dtype.itemsize}")
    wrapped = lowest & (2 ** (8 * frames.dtype.itemsize) - 1)
    found = np.zeros(unsigned.shape[1], unsigned.dtype)
    tile = np.empty((len(unsigned), _SEARCHED_AT_A_TIME), unsigned.dtype)
    below, tried = np.empty((2, _SEARCHED_AT_A_TIME), unsigned.dtype)
    arguments = unsigned, wrapped, bits, found, tile, below, tried
    compiled(LOWER_MEDIAN, *arguments)(*arguments)
    median: npt.NDArray[np.int64] = lowest + found.astype(np.int64).reshape(frames.shape[1:])
    return median


def lower_median_among(values: npt.NDArray[np.integer[Any]], counts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The lower median of those of each pixel's values that count.

    Args:
        values: Integers (frame, pixel).
        counts: (frame, pixel), False where a value does not count.

    Returns:
        int64 (pixel); of a pixel without values it says nothing.
    """
    median = np.empty(values.shape[1], np.int64)
    for first in range(0, len(median), _SORTED_AT_A_TIME):
        some = slice(first, first + _SORTED_AT_A_TIME)
        ordered = np.sort(np.where(counts[:, some], values[:, some], np.iinfo(np.int64).max), axis=0)
        rank = np.maximum(counts[:, some].sum(0) - 1, 0) // 2
        median[some] = np.take_along_axis(ordered, rank[np.newaxis], axis=0)[0]
    return median


def _search() -> Callable[..., Any]:
    from finder.median_kernel import search

    return search


LOWER_MEDIAN = Code("lower_median", _search, ("median_kernel.py",), "the median of a batch's first frames", 3)
