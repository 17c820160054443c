"""Darks are cleaned of photons and steps by a clip in whole numbers, the same however they are cut into blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import CommonMode, DarkSums, Pedestal
from finder.dark_clip import MOST_ROUNDS, checked_clip, clipped, first_range, kept_range, next_range, sample_of
from finder.dark_quality import DarkBlock, quality_of_darks

SHAPE = (6, 7)


def plain_clip(values: list[int], clip: Fraction) -> list[bool]:
    """Which values of one pixel are kept: as the module has it, in Python's numbers, without square roots."""
    n = len(values)
    sample = [values[i] for i in sample_of(n)]
    centre = sorted(sample)[(len(sample) - 1) // 2]
    distance = sorted(abs(value - centre) for value in sample)[(len(sample) - 1) // 2]
    kept = [abs(value - centre) <= math.floor((distance + 1) * clip * Fraction(3, 2)) for value in values]
    for _ in range(MOST_ROUNDS):
        some = [value for value, is_kept in zip(values, kept, strict=True) if is_kept]
        mean = Fraction(sum(some), len(some))
        variance = Fraction(sum(value**2 for value in some), len(some)) - mean**2 + Fraction(1, 12)
        before, kept = kept, [(value - mean) ** 2 <= clip**2 * variance for value in values]
        if kept == before:
            break
    return kept


@st.composite
def darks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([2, 3, 40, 64, 150]))
    noise, level = draw(st.sampled_from([0.0, 0.4, 3.0, 40.0])), draw(st.sampled_from([5, 3000, 60_000]))
    values = rng.normal(level, noise, (n, *SHAPE)) + (rng.random((n, *SHAPE)) < draw(st.sampled_from([0, 0.2]))) * 400
    dtype = draw(st.sampled_from(["u2", "u4", "i4"]))
    if dtype != "u2" and draw(st.booleans()):
        values *= 30_000  # Sums that 64 bits do not hold.
    info = np.iinfo(dtype)
    return values.round().clip(info.min, info.max).astype(dtype)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(darks(), st.sampled_from([2.0, 3.3, 5.0, 40.0]), st.lists(st.integers(0, 150), max_size=3))
def test_the_same_values_are_left_out_as_by_the_plain_rule_however_darks_are_cut(dark, clip, cuts):
    exact = checked_clip(clip)
    kept = np.empty(dark.shape, bool)
    for pixel in np.ndindex(SHAPE):
        kept[:, *pixel] = plain_clip(dark[:, *pixel].tolist(), exact)
    blocks = [block for block in np.split(dark, sorted(min(cut, len(dark)) for cut in cuts)) if len(block)]

    def total(within):
        return reduce(add, (DarkSums.of(block, within=within) for block in reversed(blocks)))

    sums, within = clipped(total, first_range(dark[sample_of(len(dark))], None, exact), exact)
    np.testing.assert_array_equal(within.holds(dark), kept)
    np.testing.assert_array_equal(sums.clipped, (~kept).sum(0))
    np.testing.assert_array_equal(sums.n_values, kept.sum(0))
    np.testing.assert_array_equal(kept_range(dark, clip).low, within.low)


def test_a_range_is_exact_where_64_bits_are_not_enough():
    dark = np.array([0, 2**32 - 1, 2**31, 2**31 + 1] * 30, np.uint32).reshape(-1, 1, 1)
    sums = DarkSums.of(dark)
    within = next_range(sums, Fraction(2))
    mean = Fraction(sum(dark.ravel().tolist()), 120)
    variance = Fraction(sum(value**2 for value in dark.ravel().tolist()), 120) - mean**2 + Fraction(1, 12)
    reach = math.isqrt(math.floor(4 * variance * 120**2))
    assert (int(within.low[0, 0]), int(within.high[0, 0])) == (
        math.ceil(mean - Fraction(reach, 120)),
        math.floor(mean + Fraction(reach, 120)),
    )


@pytest.mark.filterwarnings("ignore:only")
@pytest.mark.parametrize("share", [0.02, 0.2])
@pytest.mark.parametrize("common_mode", [None, CommonMode.parse("row")])
def test_photons_in_the_darks_are_left_out(share, common_mode):
    rng = np.random.default_rng(1)
    shape = (20, 64)
    clean = rng.normal(3000, 20, (400, *shape)).round().astype(np.uint16)
    hit = rng.random(clean.shape) < share
    dark = clean + (hit * 800).astype(np.uint16)
    given = {"common_mode": common_mode}
    pedestal, spoilt = Pedestal.from_dark(dark, clip=5, **given), Pedestal.from_dark(dark, **given)
    assert np.median(spoilt.noise) > 4 * 20
    assert np.abs(pedestal.noise / 20 - 1).max() < 0.2
    # Photons on a fifth of a row's pixels move its median, a common mode, by a quarter of a noise width.
    assert np.abs(pedestal.mean - 3000).max() < (6 if common_mode is None or share < 0.1 else 12)
    quality = quality_of_darks([DarkBlock.of(part, within=kept_range(dark, 5)) for part in np.array_split(dark, 4)])
    assert quality.outliers == 0


def test_a_step_of_some_darks_is_left_out():
    rng = np.random.default_rng(1)
    dark = rng.normal(3000, 20, (400, *SHAPE)).round().astype(np.uint16)
    dark[300:] += 400
    pedestal = Pedestal.from_dark(dark, clip=5)
    assert np.abs(pedestal.mean - 3000).max() < 6
    assert DarkSums.of(dark, within=kept_range(dark, 5)).clipped.min() >= 100


def test_good_darks_lose_next_to_nothing():
    dark = np.random.default_rng(1).normal(3000, 0.5, (2000, *SHAPE)).round().astype(np.uint16)
    assert DarkSums.of(dark, within=kept_range(dark, 5)).clipped.sum() <= 1
    constant = np.full((200, *SHAPE), 77, np.uint16)
    constant[9] = 78  # Less than rounding may do.
    assert DarkSums.of(constant, within=kept_range(constant, 5)).clipped.sum() == 0


def test_gain_bits_and_a_clip_leave_out_their_own():
    rng = np.random.default_rng(1)
    dark = rng.normal(3000, 20, (200, *SHAPE)).round().astype(np.uint16)
    dark[:50, 1, 1] |= 1 << 14
    dark[50:60, 1, 1] += 800
    dark[:, 2, 2] = 0xFFFF
    sums = DarkSums.of(dark, gain_bits=2, within=kept_range(dark, 5, gain_bits=2))
    assert (sums.switched[1, 1], sums.clipped[1, 1], sums.n_values[1, 1]) == (50, 10, 140)
    assert (sums.switched.sum(), sums.clipped.sum(), sums.n_values[2, 2]) == (250, 10, 0)


def test_a_clip_that_makes_no_sense_is_refused():
    for wrong in (0, 1.9, -5, math.nan, math.inf):
        with pytest.raises(ValueError, match="clipped at 2 to 1000 noise widths"):
            Pedestal.from_dark(np.zeros((3, 2, 2), np.uint16), clip=wrong)
