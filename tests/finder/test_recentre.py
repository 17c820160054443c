"""A pedestal moved to a batch's first frames: the plain reference's centres, exactly."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import CommonMode, FinderParameters, Pedestal, open_finder, recentred
from finder.recentre import plain_centre


def pedestal_of(mean, noise, shape=(1, 1)):
    return Pedestal.from_mean_and_noise(np.full(shape, mean), np.full(shape, noise))


def test_a_photon_among_the_values_is_left_out():
    # Lower median 104; within 2 · 2 = 4 ADU of it, and of what follows, are 101 to 104 and 106, of mean 103.2.
    values = np.array([101, 102, 103, 104, 106, 180, 180], np.uint16).reshape(-1, 1, 1)
    assert plain_centre(values[:, 0, 0], 4) == 103
    moved = recentred(pedestal_of(100.0, 2.0), values)
    assert moved.x0.tolist() == [[103]]
    assert moved.mean.tolist() == [[103.0]]
    assert moved.noise.tolist() == [[2.0]]


def test_the_mean_of_the_recentred_pedestal_is_the_centre_wherever_it_had_moved_before():
    before = pedestal_of(100.25, 2.0)
    for s1 in (-2600, 250, 499, 500, 3700):  # n_samples · the mean's distance from X0, ADU
        second = np.full((1, 1), 1000 * 4 + s1**2 / 1000, np.float32)
        moved = Pedestal(before.x0, np.full((1, 1), s1, np.float32), second, before.trained_variance, 1000)
        after = recentred(moved, np.full((5, 1, 1), 120, np.uint16))
        assert abs(after.mean[0, 0] - 120) <= 0.5
        np.testing.assert_array_equal((after.s1, after.s2), (moved.s1, moved.s2))


def test_without_a_frame_nothing_moves_and_a_masked_pixel_never_does():
    pedestal = pedestal_of(100.0, 2.0, (1, 2))
    assert recentred(pedestal, np.empty((0, 1, 2), np.uint16)) is pedestal
    moved = recentred(pedestal, np.full((3, 1, 2), 120, np.uint16), np.array([[0, 4]], np.uint32))
    assert moved.x0.tolist() == [[120, 100]]


def test_what_does_not_fit_is_refused():
    pedestal = pedestal_of(100.0, 2.0, (1, 2))
    with pytest.raises(ValueError, match="expected"):
        recentred(pedestal, np.zeros((3, 2, 1), np.uint16))
    with pytest.raises(ValueError, match="clip is -1"):
        recentred(pedestal, np.zeros((3, 1, 2), np.uint16), clip=-1)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.sampled_from(["uint8", "uint16", "uint32", "int16", "int32", ">u2", ">i4"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["whole range", "near the top", "narrow"]),
    st.sampled_from([1, 2, 3, 64, 300]),
    st.sampled_from([0.0, 0.7, 2.0, 2.5]),
    st.integers(0, 4),
)
def test_every_pixel_has_the_plain_references_centre(dtype, seed, spread, n_frames, clip, rounds):
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    low = {"whole range": info.min, "near the top": info.max - 20, "narrow": 20}[spread]
    high = {"whole range": info.max, "near the top": info.max, "narrow": 60}[spread]
    values = rng.integers(low, high, (n_frames, 2, 3), np.dtype(dtype).newbyteorder("="), endpoint=True).astype(dtype)
    noise = rng.choice([0.0, 0.4, 3.3, 1e5, 2.0**32], (2, 3))
    pedestal = Pedestal.from_mean_and_noise(np.full((2, 3), 50.0), noise)
    moved = recentred(pedestal, values, clip=clip, rounds=rounds)
    for pixel in np.ndindex(2, 3):
        reach = int(np.floor(np.float32(clip) * pedestal.noise[pixel]))
        assert moved.x0[pixel] == plain_centre(values[:, *pixel], reach, rounds)


def test_a_drift_is_followed_and_the_noise_kept():
    rng = np.random.default_rng(8)
    shape = (30, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pedestal = Pedestal.from_dark(np.rint(rng.normal(1000, 10, (90, *shape))).astype(np.uint16))
    frames = np.rint(rng.normal(1000 + 25, 10, (64, *shape))).astype(np.uint16)
    frames[rng.random(frames.shape) < 0.05] += 300
    moved = recentred(pedestal, frames)
    assert np.median(moved.mean) == pytest.approx(1025, abs=0.5)
    np.testing.assert_array_equal(moved.noise, pedestal.noise)


def test_with_a_common_mode_what_it_leaves_is_recentred():
    rng = np.random.default_rng(9)
    shape, row = (8, 40), CommonMode.parse("row")
    pattern = rng.integers(-15, 16, (1, *shape))
    quiet = np.rint(rng.normal(1000, 3, (100, *shape)))
    together = rng.integers(-200, 200, (100, shape[0], 1))
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 1000.0), np.full(shape, 3.0))
    frames = (quiet + pattern + together).astype(np.uint16)
    moved = recentred(pedestal, frames, common_mode=row)
    # What a row's pixels have in common is the common mode's; the pattern within the row is the pedestal's.
    difference = moved.mean - 1000 - pattern[0]
    assert np.abs(difference - np.median(difference, axis=1, keepdims=True)).max() <= 2
    finder = open_finder("cpu", FinderParameters(common_mode=row), shape)
    assert len(finder.find(frames, moved)) == 0
