"""Pixels that move together: their groups, what is subtracted, and darks that are trained with it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import CommonMode, DarkSums, FinderParameters, Pedestal, open_finder
from finder.common_mode import common_mode_levels

STATE = ("x0", "s1", "s2", "trained_variance")


@pytest.mark.parametrize("text", ["row", "column", "tile:256x256", "tile:1x17"])
def test_a_common_mode_reads_as_it_is_written(text):
    assert str(CommonMode.parse(text)) == text
    assert CommonMode.parse(text) == CommonMode.parse(text)


@pytest.mark.parametrize(
    "text",
    ["rows", "", "tile", "tile:", "tile:0x4", "tile:4", "tile:4x", "tile:-4x4", "tile:4x4 ", "tile:4.0x4", "TILE:4x4"],
)
def test_what_is_no_common_mode_is_refused(text):
    with pytest.raises(ValueError, match="is none of 'row', 'column' and 'tile:RxC'"):
        CommonMode.parse(text)


def test_groups_that_are_none_are_refused():
    for rows, cols in ((None, None), (2, None), (None, 2), (0, 3), (1.5, 3), (True, 3)):
        with pytest.raises(ValueError, match=r"it must be CommonMode\.parse of"):
            CommonMode(rows, cols)
    with pytest.raises(TypeError, match="it must be None or CommonMode"):
        FinderParameters(common_mode="row")


def test_the_level_of_a_group_is_the_lower_median_of_its_pixels():
    differences = np.array([[1, 9, 3, 7, 50], [2, 2, 8, -4, 60]])
    present = np.ones((2, 5), bool)
    levels = {text: common_mode_levels(differences, CommonMode.parse(text), present) for text in ("row", "column")}
    assert levels["row"].tolist() == [[7] * 5, [2] * 5]
    assert levels["column"].tolist() == [[1, 2, 3, -4, 50]] * 2
    tiles = common_mode_levels(differences, CommonMode.parse("tile:2x2"), present)
    assert tiles.tolist() == [[2, 2, 3, 3, 50]] * 2  # The last ones are smaller.


def test_masked_pixels_do_not_count_and_a_group_of_them_has_no_level():
    differences = np.array([[1, 9, 3], [7, 7, 7]])
    present = np.array([[True, False, True], [False, False, False]])
    assert common_mode_levels(differences, CommonMode.parse("row"), present).tolist() == [[1] * 3, [0] * 3]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("text", ["row", "column", "tile:10x16"])
def test_what_moves_together_makes_no_cluster_and_a_photon_still_does(backend, text):
    rng, shape, mode = np.random.default_rng(2), (20, 48), CommonMode.parse(text)
    rows, cols = mode.group_shape(shape)
    groups = rng.integers(-150, 150, (30, -(-shape[0] // rows), -(-shape[1] // cols)))
    together = np.repeat(np.repeat(groups, rows, axis=1), cols, axis=2)[:, : shape[0], : shape[1]]
    frames = (np.rint(rng.normal(1000, 2, (30, *shape))) + together).astype(np.uint16)
    frames[4, 11, 30] += 60
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 1000.0), np.full(shape, 2.2))
    found = open_finder(backend, FinderParameters(common_mode=mode), shape).find(frames, pedestal)
    assert (found.frame_index.tolist(), found.y.tolist(), found.x.tolist()) == ([4], [11], [30])
    assert found.signal[0, 1, 1] == pytest.approx(60, abs=10)
    assert len(open_finder(backend, FinderParameters(), shape).find(frames, pedestal)) > 100


def in_python_integers(dark, common_mode, masked, n_samples):
    """The pedestal's x0, s1 and s2 by their definitions, in integers without end."""
    n = len(dark)
    x0 = np.array(
        [[(2 * int(sum(map(int, pixel))) + n) // (2 * n) for pixel in row] for row in dark.transpose(1, 2, 0)]
    )
    differences = dark.astype(np.int64) - x0
    left = [frame - common_mode_levels(frame, common_mode, ~masked) for frame in differences]
    first = sum(frame.astype(object) for frame in left)
    second = sum(frame.astype(object) ** 2 for frame in left)
    scaled = [(total.astype(np.float64) * (n_samples / n)).astype(np.float32) for total in (first, second)]
    return x0, *scaled


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.sampled_from(["uint8", "uint16", "uint32", "int16", "int32", ">u2"]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from(["row", "column", "tile:2x2"]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_training_with_a_common_mode_is_exact_in_any_split(dtype, seed, whole_range, text, share):
    rng, info, mode = np.random.default_rng(seed), np.iinfo(dtype), CommonMode.parse(text)
    low, high = (info.min, info.max) if whole_range else (20, 60)
    dark = rng.integers(low, high, (11, 3, 5), np.dtype(dtype).newbyteorder("="), endpoint=True).astype(dtype)
    masked = rng.random((3, 5)) < share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pedestal = Pedestal.from_dark(dark, 700, common_mode=mode, pixel_mask=masked)
        expected = in_python_integers(dark, mode, masked, 700)
        for name, plane in zip(STATE, expected, strict=False):
            np.testing.assert_array_equal(getattr(pedestal, name), plane, err_msg=name)
        parts = [DarkSums.of_corrected(part, pedestal.x0, mode, masked) for part in (dark[7:], dark[:2], dark[2:7])]
        again = Pedestal.from_corrected_sums(pedestal.x0, parts[1] + parts[2] + parts[0], 700)
    for name in STATE:
        np.testing.assert_array_equal(getattr(again, name), getattr(pedestal, name), err_msg=name)


def test_darks_that_move_together_have_the_noise_of_what_is_left():
    rng = np.random.default_rng(4)
    dark = (np.rint(rng.normal(1000, 3, (200, 16, 64))) + rng.integers(-40, 40, (200, 16, 1))).astype(np.uint16)
    assert np.median(Pedestal.from_dark(dark).noise) > 20
    trained = Pedestal.from_dark(dark, common_mode=CommonMode.parse("row"))
    assert np.median(trained.noise) == pytest.approx(3, abs=0.2)
