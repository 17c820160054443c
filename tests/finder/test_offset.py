"""The offset of a pedestal from the frames that follow it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from finder import Pedestal
from finder.offset import Offset, OffsetMeter, lower_median, offset_by_chance


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.uint32, np.int32])
@pytest.mark.parametrize("n_frames", [1, 2, 3, 64])
def test_the_lower_median_is_that_of_the_sorted_values(dtype, n_frames):
    limits = np.iinfo(dtype)
    frames = np.random.default_rng(n_frames).integers(limits.min, limits.max, (n_frames, 41, 53), dtype, endpoint=True)
    np.testing.assert_array_equal(lower_median(frames), np.sort(frames, axis=0)[(n_frames - 1) // 2])


@pytest.mark.parametrize(("dtype", "n_frames"), [(np.uint8, 300), (np.int8, 300), (np.uint16, 70_000)])
def test_the_lower_median_of_more_frames_than_their_type_can_count(dtype, n_frames):
    frames = np.random.default_rng(n_frames).choice(np.array([0, 3], dtype), (n_frames, 1, 2), p=[0.97, 0.03])
    np.testing.assert_array_equal(lower_median(frames), [[0, 0]])


@pytest.mark.parametrize("dtype", [">u2", ">i4", "<u2"])
def test_the_lower_median_does_not_depend_on_the_order_in_memory(dtype):
    frames = np.random.default_rng(9).integers(0, 9000, (7, 5, 6)).astype(dtype)
    expected = np.sort(frames, axis=0)[3]
    transposed = frames.transpose(0, 2, 1).copy().transpose(0, 2, 1)
    for given in (frames, np.asfortranarray(frames), transposed, np.repeat(frames, 2, axis=2)[:, :, ::2]):
        np.testing.assert_array_equal(lower_median(given), expected)


def test_the_lower_median_of_equal_values_is_that_value():
    np.testing.assert_array_equal(lower_median(np.full((7, 3, 4), -5, np.int16)), np.full((3, 4), -5))


def measured(mean_shift, n_frames=64, masked=None, noise=None):
    shape = (40, 50)
    noise = np.full(shape, 8.0) if noise is None else noise
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 1000.0), noise)
    rng = np.random.default_rng(5)
    frames = np.rint(rng.normal(1000 + mean_shift, 8, (n_frames, *shape))).astype(np.uint16)
    meter = OffsetMeter(pedestal, masked)
    for start in range(0, n_frames, 20):
        meter.add(frames[start : start + 20])
    return meter.offset()


def test_a_shift_of_the_frames_is_measured_in_noise_widths():
    assert measured(0).median == pytest.approx(0, abs=0.05)
    assert measured(12).median == pytest.approx(1.5, abs=0.05)
    assert measured(-12).median == pytest.approx(-1.5, abs=0.05)
    assert (measured(0).pixels_off, measured(16).pixels_off) == (0, 1)


def test_a_part_of_the_detector_that_is_off_shows_where_the_median_does_not():
    shift = np.zeros((40, 50))
    shift[20:, 25:] = 100
    offset = measured(shift)
    assert offset.median == pytest.approx(0, abs=0.1)
    assert offset.pixels_off == 0.25


def test_only_the_first_64_frames_count():
    pedestal = Pedestal.from_mean_and_noise(np.full((2, 2), 100.0), np.full((2, 2), 10.0))
    meter = OffsetMeter(pedestal)
    meter.add(np.full((64, 2, 2), 105, np.uint16))
    meter.add(np.full((1000, 2, 2), 900, np.uint16))
    assert meter.offset().median == pytest.approx(0.5)


def test_masked_pixels_and_pixels_without_noise_do_not_count():
    shape = (40, 50)
    noise = np.full(shape, 8.0)
    noise[:, :25] = 0
    masked = np.zeros(shape, bool)
    masked[:, 25:] = True
    assert math.isfinite(measured(0, noise=noise).median)
    assert math.isfinite(measured(0, masked=masked).median)
    assert math.isnan(measured(0, noise=noise, masked=masked).median)
    assert math.isnan(measured(0, noise=noise, masked=masked).pixels_off)


def test_without_frames_there_is_no_offset():
    meter = OffsetMeter(Pedestal.from_mean_and_noise(np.ones((1, 1)), np.ones((1, 1))))
    assert math.isnan(meter.offset().median)


@pytest.mark.parametrize("n_frames", [1, 2, 3, 4, 10, 32, 64])
def test_what_chance_allows_holds_for_frames_that_fit(n_frames):
    offset, chance = measured(0, n_frames), offset_by_chance(n_frames, 2000)
    assert abs(offset.median) <= chance.median < 0.8
    assert chance.pixels_off == (0 if n_frames >= 32 else math.inf)
    if n_frames >= 32:
        assert offset.pixels_off == 0


def test_few_values_tell_nothing():
    assert offset_by_chance(1, 1) == offset_by_chance(0, 160_000) == Offset(math.inf, math.inf)
