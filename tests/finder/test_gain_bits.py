"""Pixels in another gain are absent from their frame, in every part of the finder and on every backend."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import CommonMode, FinderParameters, Pedestal, open_finder, recentred, share_seldom_updated
from finder.common_mode import common_mode_levels
from finder.common_mode_correction import CommonModeCorrection
from finder.dark_quality import DarkBlock, quality_of_darks
from finder.gain_bits import in_another_gain
from finder.offset import OffsetMeter
from finder.recentre import plain_centre

# A kernel is compiled for each: (window, noise, tracking, gain bits).
KERNELS = [
    ((3, 3), "running", True, 2),
    ((3, 3), "trained", True, 1),
    ((3, 3), "running", False, 2),
    ((5, 3), "running", True, 2),
]
SHAPES = [(1, 1), (3, 7), (9, 16), (17, 33), (8, 65)]
COMMON_MODES = [None, None, *map(CommonMode.parse, ("row", "column", "tile:4x5"))]
SHAPE = (12, 20)


def words(rng, shape, dtype, share, gain_bits=2, mean=3000.0, noise=20.0):
    """Frames with photons, a share of whose values have gain bits that are not 0."""
    level = min(mean, 100.0) if dtype.itemsize == 1 else mean
    values = rng.normal(level, noise, shape) + (rng.random(shape) < 0.02) * 150
    frames = values.clip(0, 255 if dtype.itemsize == 1 else 2**14 - 1).round().astype(np.int64)
    if dtype.itemsize > 1:
        switched = rng.random(shape) < share
        frames[switched] = rng.integers(0, 1 << (16 - gain_bits), int(switched.sum()))
        frames[switched] += rng.integers(1, 1 << gain_bits, int(switched.sum())) << (16 - gain_bits)
    return frames.astype(np.uint16).astype(dtype) if dtype.itemsize > 1 else frames.astype(dtype)


@dataclass(frozen=True)
class Case:
    parameters: FinderParameters
    tracking: bool
    frames: np.ndarray
    pedestal: Pedestal
    pixel_mask: np.ndarray | None


@st.composite
def cases(draw):
    window, noise, tracking, gain_bits = draw(st.sampled_from(KERNELS))
    common_mode = draw(st.sampled_from(COMMON_MODES))
    # Each type has a common mode compiled for it.
    dtypes = ["u1", "u2", "i2", "u4", "i4"] if common_mode is None else ["u2"]
    shape, dtype = draw(st.sampled_from(SHAPES)), np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
    frames = words(rng, (draw(st.integers(3, 9)), *shape), dtype, share, gain_bits)
    frames = frames.astype(dtype.newbyteorder(draw(st.sampled_from("<>"))))
    # A pedestal beyond the frames' range takes another way through the kernel.
    mean = draw(st.sampled_from([100.0 if dtype.itemsize == 1 else 3000.0, -70_000.0, 2.0**31 + 5]))
    parameters = FinderParameters(cluster_size=window, noise=noise, common_mode=common_mode, gain_bits=gain_bits)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, mean), np.full(shape, 20.0))
    masked = draw(st.sampled_from([None, 0.1, 0.9]))
    return Case(parameters, tracking, frames, pedestal, None if masked is None else rng.random(shape) < masked)


def run(backend, case):
    """Two frames only move the pedestal, the others come in two pieces."""
    chain = open_finder(backend, case.parameters, case.frames.shape[1:], case.pixel_mask).chain(
        case.pedestal, case.tracking
    )
    chain.update(case.frames[:2])
    found = [chain.find(case.frames[a:b]) for a, b in itertools.pairwise((2, 3, len(case.frames)))]
    names = ("frame_index", "y", "x", "signal", "n_clusters")
    activity, pedestal = chain.activity, chain.pedestal
    return {
        **{name: np.concatenate([getattr(part, name) for part in found]) for name in names},
        **{name: getattr(activity, name) for name in ("updated", "firing", "blind", "centres", "switched")},
        "s1": pedestal.s1.view(np.uint32),
        "s2": pedestal.s2.view(np.uint32),
    }


@settings(derandomize=True, deadline=None, max_examples=150)
@given(cases())
def test_the_cpu_finder_gives_the_bits_of_the_reference(case):
    found, expected = run("cpu", case), run("reference", case)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def a_pedestal(noise=20.0):
    return Pedestal.from_mean_and_noise(np.full(SHAPE, 3000.0), np.full(SHAPE, noise))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("common_mode", [None, CommonMode.parse("row")])
def test_a_pixel_in_another_gain_is_as_good_as_masked_in_that_frame(backend, common_mode):
    rng = np.random.default_rng(5)
    frames = words(rng, (30, *SHAPE), np.dtype(np.uint16), 0.05)
    parameters = FinderParameters(common_mode=common_mode, gain_bits=2)
    chain = open_finder(backend, parameters, SHAPE).chain(a_pedestal())
    plain = FinderParameters(common_mode=common_mode)
    pedestal, n_clusters = a_pedestal(), 0
    for frame in frames:
        switched = (frame & 0xC000) != 0
        found = chain.find(frame[np.newaxis])
        # The same finder without gain bits, and with the pixels masked in this frame.
        masked = open_finder("reference", plain, SHAPE, switched).find(frame[np.newaxis], pedestal)
        for name in ("y", "x", "signal"):
            np.testing.assert_array_equal(getattr(found, name), getattr(masked, name))
        assert not switched[found.y, found.x].any()
        pedestal, n_clusters = masked.pedestal, n_clusters + len(found)
        np.testing.assert_array_equal(chain.pedestal.s1, pedestal.s1)
        np.testing.assert_array_equal(chain.pedestal.s2, pedestal.s2)
    assert n_clusters > 50
    activity = chain.activity
    np.testing.assert_array_equal(activity.switched, ((frames & 0xC000) != 0).sum(0))
    assert (activity.updated + activity.firing + activity.blind + activity.switched == 30).all()


def test_a_pixel_in_another_gain_does_not_count_as_starved():
    frames = np.full((10, *SHAPE), 3000, np.uint16)
    frames[1::2] += 2
    frames[:7, 4, 4] |= 1 << 14
    frames[:, 5, 5] |= 3 << 14
    chain = open_finder("cpu", FinderParameters(gain_bits=2), SHAPE).chain(a_pedestal())
    chain.find(frames)
    activity = chain.activity
    assert (activity.switched[4, 4], activity.updated[4, 4], activity.switched[5, 5]) == (7, 3, 10)
    assert share_seldom_updated(activity) == 0


def test_wide_and_signed_words_have_their_gain_bits_where_16_bit_ones_have_them():
    values = np.array([0, 1, 0x3FFF, 0x4000, 0x7FFF, 0xC000, 0xFFFF], np.uint16)
    expected = [False, False, False, True, True, True, True]
    for dtype in ("u2", "i2", "u4", "i4"):
        assert in_another_gain(values.astype(dtype), 2).tolist() == expected
    assert in_another_gain(np.array([-1, 1 << 20]), 2).all()
    assert not in_another_gain(np.array([0, 255], np.uint8), 2).any()
    assert not in_another_gain(values, 0).any()


def test_gain_bits_that_make_no_sense_are_refused():
    for wrong in (-1, 9, 2.0, True, "2"):
        with pytest.raises(ValueError, match=r"gain_bits is .*; it must be a whole number from 0"):
            FinderParameters(gain_bits=wrong)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.6, 1.0]), st.sampled_from(["row", "column", "tile:5x9"]))
def test_a_common_mode_is_the_median_of_the_pixels_in_gain_0(seed, share, kind):
    frames = words(np.random.default_rng(seed), (3, 11, 37), np.dtype(np.uint16), share)
    x0 = np.full((11, 37), 2990)
    common_mode = CommonMode.parse(kind)
    left = CommonModeCorrection(common_mode, x0, None, 2).corrected(frames)
    for frame, found in zip(frames, left, strict=True):
        there = ~in_another_gain(frame, 2)
        difference = frame.astype(np.int64) - x0
        expected = difference - common_mode_levels(difference, common_mode, there)
        np.testing.assert_array_equal(found[there], expected[there])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.7, 1.0]), st.integers(1, 40))
def test_recentring_and_offsets_take_the_values_in_gain_0(seed, share, n_frames):
    frames = words(np.random.default_rng(seed), (n_frames, *SHAPE), np.dtype(np.uint16), share)
    pedestal = a_pedestal()
    switched = in_another_gain(frames, 2)
    moved = recentred(pedestal, frames, gain_bits=2)
    medians = np.zeros(SHAPE)
    for pixel in np.ndindex(SHAPE):
        values = frames[:, *pixel][~switched[:, *pixel]]
        assert moved.x0[pixel] == (plain_centre(values, 40) if len(values) else pedestal.x0[pixel])
        medians[pixel] = np.sort(values)[(len(values) - 1) // 2] if len(values) else np.nan
    meter = OffsetMeter(pedestal, gain_bits=2)
    meter.add(frames)
    offsets = (medians[np.isfinite(medians)] - 3000) / pedestal.noise[0, 0]
    expected = np.median(offsets) if len(offsets) else np.nan
    assert meter.offset().median == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("common_mode", [None, CommonMode.parse("row")])
@pytest.mark.parametrize("dtype", ["u2", "u4"])
def test_a_pixel_is_trained_on_its_darks_in_gain_0(common_mode, dtype):
    rng = np.random.default_rng(2)
    dark = words(rng, (150, *SHAPE), np.dtype(dtype), 0.0)
    dark[100:, 3, 4] |= 1 << 14
    dark[:, 7, 8] = 0xFFFF
    dark[1:, 9, 9] = 0xFFFF
    with pytest.warns(UserWarning, match="2 pixels have fewer than 2 darks in gain 0"):
        pedestal = Pedestal.from_dark(dark, gain_bits=2, common_mode=common_mode)
    assert (pedestal.x0[7, 8], pedestal.noise[7, 8], pedestal.noise[9, 9]) == (0, 0, 0)
    if common_mode is None:
        alone = Pedestal.from_dark(dark[:100, 3:4, 4:5])
        for name in ("x0", "s1", "s2", "trained_variance"):
            assert getattr(pedestal, name)[3, 4] == getattr(alone, name)[0, 0]
    untouched = Pedestal.from_dark(dark)
    if common_mode is None:
        good = np.ones(SHAPE, bool)
        good[[3, 7, 9], [4, 8, 9]] = False
        np.testing.assert_array_equal(pedestal.s2[good], untouched.s2[good])
    assert pedestal.noise[3, 4] == pytest.approx(pedestal.noise[3, 5], rel=0.5)


def test_the_quality_of_darks_is_that_of_their_values_in_gain_0():
    rng = np.random.default_rng(3)
    dark = rng.normal(3000, 20, (200, *SHAPE)).round().astype(np.uint16)
    switched = dark.copy()
    switched[150:] |= np.where(rng.random(SHAPE) < 0.3, np.uint16(1 << 14), np.uint16(0))
    blocks = [DarkBlock.of(block, gain_bits=2) for block in np.array_split(switched, 4)]
    quality = quality_of_darks(blocks)
    assert quality.outliers == 0
    assert abs(quality.step) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        as_if = quality_of_darks([DarkBlock.of(block) for block in np.array_split(switched, 4)])
    assert as_if.pixels_stepped > 0.2
