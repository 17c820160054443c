"""Darks cleaned of photons and steps: values far from their pixel's mean are left out, again and again, in integers.

Exact, and the same on any number of workers: what counts is a range of integers for each pixel, made from exact sums
over the values in the range before. With n values in it, S = ΣY and Q = ΣY² of Y = X − X0, a value counts next if

    |Y − S/n| ≤ clip · √(Q/n − (S/n)² + 1/12),   that is   (n·Y − S)² ≤ clip² · (12·(n·Q − S²) + n²) / 12

(1/12 ADU² is what rounding to whole ADU adds: without it a quiet pixel would lose all values but one.) As the left side
is the square of an integer, the right side may be rounded down, and its square root too, to R:

    X0 + ⌈(S − R)/n⌉ ≤ X ≤ X0 + ⌊(S + R)/n⌋

All values are looked at again in each round, so that none is lost to a range that was too narrow at first. It ends when
the sums stay what they were, or after 20 rounds. The first range is made from the median of a few darks and the median
distance from it, which do not mind if fewer than half of the values are photons; from the mean, more than 1 in 26 would
hide themselves behind the noise that they make (at a clip of 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.dark_sums import DarkSums, Int64, ValueRange
from finder.frames import Frames
from finder.gain_bits import in_another_gain
from finder.offset import lower_median_among

SAMPLE = 64
"""Darks, evenly spread over all, that the first range is made from."""
MOST_ROUNDS = 20
LOWEST_CLIP, HIGHEST_CLIP = 2.0, 1000.0
# The median distance from the median is 0.6745 noise widths: 3/2 of it is about one.
_NOISE_BY_DISTANCE = Fraction(3, 2)
_EVERYTHING = 2**40  # Beyond any value, and any difference of two.
_PIXELS_AT_A_TIME = 1 << 16


def checked_clip(clip: float) -> Fraction:
    """`clip` in thousandths.

    Raises:
        ValueError: it is not a number from 2 to 1000.
    """
    if not LOWEST_CLIP <= clip <= HIGHEST_CLIP:
        raise ValueError(
            f"darks are clipped at {LOWEST_CLIP:g} to {HIGHEST_CLIP:g} noise widths, not {clip!r}: 5 leaves out "
            "photons and next to none of the noise"
        )
    return Fraction(round(clip * 1000), 1000)


def sample_of(n_darks: int) -> list[int]:
    """The darks that the first range is made from."""
    n = min(n_darks, SAMPLE)
    return [i * n_darks // n for i in range(n)]


def first_range(values: NDArray[np.integer[Any]], counts: NDArray[np.bool_] | None, clip: Fraction) -> ValueRange:
    """The range to begin with: |X − c| ≤ clip · 3/2 · (d + 1), c the lower median, d that of the distances from it.

    Args:
        values: a few darks (dark_frame, y, x).
        counts: (dark_frame, y, x), False where a value is in another gain; None: all count.
        clip: noise widths.
    """
    shape = values.shape[1:]
    flat = values.reshape(len(values), -1)
    there = np.ones_like(flat, bool) if counts is None else counts.reshape(flat.shape)
    low, high = np.empty(flat.shape[1], np.int64), np.empty(flat.shape[1], np.int64)
    for first in range(0, len(low), _PIXELS_AT_A_TIME):
        some = slice(first, first + _PIXELS_AT_A_TIME)
        of_pixels, known = flat[:, some].astype(np.int64), there[:, some]
        centre = lower_median_among(of_pixels, known)
        distance = lower_median_among(np.abs(of_pixels - centre), known)
        factor = clip * _NOISE_BY_DISTANCE
        reach = (distance + 1) * factor.numerator // factor.denominator
        none = ~known.any(0)
        low[some] = np.where(none, -_EVERYTHING, centre - reach)
        high[some] = np.where(none, _EVERYTHING, centre + reach)
    return ValueRange(low.reshape(shape), high.reshape(shape))


def next_range(sums: DarkSums, clip: Fraction) -> ValueRange:
    """The range that follows from sums over the values in the range before."""
    x0 = sums.offset()
    first, second = sums.exact_moments_about(x0)
    n = np.maximum(sums.n_values, 1)
    up, down = clip.numerator**2, 12 * clip.denominator**2
    # In floating point, to know for which pixels 64 bits are enough: nearly always for all.
    small = 13.0 * up * n * (second.astype(np.float64) + n) < 2.0**61
    low, high = np.empty_like(x0), np.empty_like(x0)
    of_n, of_s, of_q = n[small], first[small], second[small].astype(np.int64)
    reach = _integer_roots(up * (12 * (of_n * of_q - of_s**2) + of_n**2) // down)
    low[small], high[small] = -((reach - of_s) // of_n), (of_s + reach) // of_n
    for pixel in zip(*np.nonzero(~small), strict=True):
        one_n, one_s, one_q = (int(plane[pixel]) for plane in (n, first, second))
        one_reach = math.isqrt(up * (12 * (one_n * one_q - one_s**2) + one_n**2) // down)
        low[pixel] = max(-((one_reach - one_s) // one_n), -_EVERYTHING)
        high[pixel] = min((one_s + one_reach) // one_n, _EVERYTHING)
    return ValueRange(x0 + low, x0 + high)


def clipped(
    sum_within: Callable[[ValueRange], DarkSums], start: ValueRange, clip: Fraction
) -> tuple[DarkSums, ValueRange]:
    """The sums of darks without the values that were clipped, and the range of those that were not.

    Args:
        sum_within: sums all darks over the values in a range.
        start: the first range.
        clip: noise widths.
    """
    within = start
    sums = sum_within(within)
    for _ in range(MOST_ROUNDS):
        following = next_range(sums, clip)
        before, sums, within = sums, sum_within(following), following
        if _same(before, sums):
            break
    return sums, within


def kept_range(darks: Frames, clip: float, gain_bits: int = 0) -> ValueRange:
    """The values of each pixel that are not clipped, of a few darks that lie in memory.

    Args:
        darks: (dark_frame, y, x), at least one.
        clip: noise widths.
        gain_bits: bits above the value in a 16-bit word: values in another gain are left out.
    """
    noise_widths = checked_clip(clip)
    sample = darks[sample_of(len(darks))]
    start = first_range(sample, ~in_another_gain(sample, gain_bits), noise_widths)
    return clipped(lambda within: DarkSums.of(darks, gain_bits=gain_bits, within=within), start, noise_widths)[1]


def _integer_roots(squares: Int64) -> Int64:
    """⌊√s⌋ of each, s from 0 to below 2⁶²."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    # The floating point is off by one at most.
    roots -= roots * roots > squares
    roots += (roots + 1) ** 2 <= squares
    return roots


def _same(a: DarkSums, b: DarkSums) -> bool:
    """Whether the sums are of the same values, as far as the next range depends on them."""
    x0 = a.offset()
    moments_a, moments_b = (sums.exact_moments_about(x0) for sums in (a, b))
    pairs = ((a.n_values, b.n_values), *zip(moments_a, moments_b, strict=True))
    return all(bool((one == other).all()) for one, other in pairs)
