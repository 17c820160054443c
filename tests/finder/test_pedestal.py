from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import DarkSums, Pedestal

STATE = ("x0", "s1", "s2", "trained_variance")


def assert_same(a, b):
    for name in STATE:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.n_samples == b.n_samples


def in_python_integers(dark, n_samples):
    """x0, s1 and s2 of one pixel's darks by the design's formulas, in integers without end."""
    values, n = [int(value) for value in dark], len(dark)
    x0 = (2 * sum(values) + n) // (2 * n)
    first, second = sum(x - x0 for x in values), sum((x - x0) ** 2 for x in values)
    scale = n_samples / n
    return x0, np.float32(float(first) * scale), np.float32(float(second) * scale)


@pytest.fixture(scope="module")
def dark():
    return np.random.default_rng(1).normal(1200, 4, (150, 5, 7)).round().astype(np.uint16)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.sampled_from(["uint8", "uint16", "uint32", "int16", "int32"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["whole range", "near the top", "small"]),
    st.lists(st.integers(0, 120), max_size=3),
    st.sampled_from([1, 1000, 123457]),
)
def test_training_is_exact_for_every_type_and_any_split(dtype, seed, spread, edges, n_samples):
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    low = {"whole range": info.min, "near the top": info.max - 100, "small": 0}[spread]
    high = {"whole range": info.max, "near the top": info.max, "small": 9}[spread]
    dark = rng.integers(low, high, (120, 2, 3), dtype, endpoint=True)
    blocks = [DarkSums.of(block) for block in np.split(dark, sorted(edges))]
    merged = blocks.pop(int(rng.integers(len(blocks))))
    for block in rng.permutation(np.array(blocks, dtype=object)):
        merged = block + merged
    pedestal = Pedestal.from_sums(pickle.loads(pickle.dumps(merged)), n_samples)
    for pixel in np.ndindex(2, 3):
        expected = in_python_integers(dark[:, *pixel], n_samples)
        assert (pedestal.x0[pixel], pedestal.s1[pixel], pedestal.s2[pixel]) == expected
    assert_same(pedestal, Pedestal.from_dark(dark, n_samples))


def test_blocks_of_different_types_add_up():
    narrow = np.full((60, 1, 1), 5, np.int16)
    wide = np.full((60, 1, 1), 70000, np.uint32)
    pedestal = Pedestal.from_sums(DarkSums.of(narrow) + DarkSums.of(wide))
    assert pedestal.x0[0, 0] == in_python_integers([5] * 60 + [70000] * 60, 1000)[0]
    assert_same(pedestal, Pedestal.from_sums(DarkSums.of(wide) + DarkSums.of(narrow)))


def test_a_zarr_array_trains_as_its_numpy_array_does(tmp_path, dark):
    stored = zarr.create_array(tmp_path / "dark.zarr", data=dark, chunks=(20, 5, 7))
    assert_same(Pedestal.from_dark(stored), Pedestal.from_dark(dark))


def test_foreign_byte_order_and_strides_change_nothing(dark):
    assert_same(Pedestal.from_dark(dark.astype(">u2")), Pedestal.from_dark(dark))
    doubled = np.repeat(dark, 2, axis=2)
    transposed = dark.transpose(0, 2, 1).copy().transpose(0, 2, 1)
    for laid_out in (doubled[:, :, ::2], np.asfortranarray(dark), transposed, np.asfortranarray(dark.astype(">i4"))):
        assert_same(Pedestal.from_dark(laid_out), Pedestal.from_dark(dark))


def test_mean_and_noise_are_those_of_the_darks(dark):
    pedestal = Pedestal.from_dark(dark)
    np.testing.assert_allclose(pedestal.mean, dark.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(pedestal.noise, dark.std(axis=0), rtol=1e-4)


def test_a_known_mean_and_noise_come_back():
    mean, noise = np.array([[1000.25, -7.5, 0.0]]), np.array([[3.0, 0.0, 12.5]])
    pedestal = Pedestal.from_mean_and_noise(mean, noise, n_samples=500)
    np.testing.assert_allclose(pedestal.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(pedestal.noise, noise, atol=1e-3)
    np.testing.assert_allclose(pedestal.trained_variance, noise**2, atol=1e-3)
    assert pedestal.n_samples == 500


@pytest.mark.parametrize("n_frames", [0, 1])
def test_one_dark_frame_is_an_error(n_frames, dark):
    with pytest.raises(ValueError, match=f"^{n_frames} dark frames"):
        Pedestal.from_dark(dark[:n_frames])


def test_few_darks_warn(dark):
    with pytest.warns(UserWarning, match="only 99 dark frames"):
        Pedestal.from_dark(dark[:99])
    Pedestal.from_dark(dark[:100])


def test_float_darks_and_flat_darks_are_refused(dark):
    with pytest.raises(TypeError, match="dark frames are float32"):
        Pedestal.from_dark(dark.astype(np.float32))
    with pytest.raises(ValueError, match="three axes"):
        Pedestal.from_dark(dark[0])


@pytest.mark.parametrize(
    ("mean", "noise", "reason"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "the same"),
        (np.zeros(3), np.zeros(3), "the same"),
        (np.full((1, 1), np.nan), np.zeros((1, 1)), "not finite"),
        (np.zeros((1, 1)), np.full((1, 1), np.inf), "not finite"),
        (np.zeros((1, 2)), np.array([[1.0, -1.0]]), "negative in 1 pixels"),
        (np.full((1, 1), 1e12), np.ones((1, 1)), "no supported frame"),
    ],
)
def test_a_mean_or_noise_that_cannot_be_is_refused(mean, noise, reason):
    with pytest.raises(ValueError, match=reason):
        Pedestal.from_mean_and_noise(mean, noise)


def test_a_pedestal_cannot_be_written_to(dark):
    pedestal = Pedestal.from_dark(dark)
    with pytest.raises(ValueError, match="read-only"):
        pedestal.s1[0, 0] = 1


def test_arrays_that_do_not_fit_together_are_refused(dark):
    whole = Pedestal.from_dark(dark)
    with pytest.raises(ValueError, match="s2 has the shape"):
        Pedestal(whole.x0, whole.s1, whole.s2[1:], whole.trained_variance, 1000)
    with pytest.raises(ValueError, match="s1 has values that are not finite"):
        Pedestal(whole.x0, whole.s1 * np.float32(np.nan), whole.s2, whole.trained_variance, 1000)


def test_a_negative_variance_is_refused(dark):
    whole = Pedestal.from_dark(dark)
    variance = whole.trained_variance.copy()
    variance[0, :2] = -1e-3
    with pytest.raises(ValueError, match="trained_variance is negative in 2 pixels"):
        Pedestal(whole.x0, whole.s1, whole.s2, variance, 1000)
    variance[0, :2] = np.nan
    with pytest.raises(ValueError, match="trained_variance has values that are not finite"):
        Pedestal(whole.x0, whole.s1, whole.s2, variance, 1000)


def test_sums_of_different_shapes_do_not_add_up(dark):
    with pytest.raises(ValueError, match="cannot be summed"):
        DarkSums.of(dark) + DarkSums.of(dark[:, 1:])


def test_the_expected_scale_is_the_mean_of_the_squares():
    # Two values a, b about their rounded mean: a check of the formulas themselves, by hand.
    with pytest.warns(UserWarning, match="only 2 dark frames"):
        pedestal = Pedestal.from_dark(np.array([[[10]], [[13]]], np.uint8), n_samples=100)
    assert pedestal.x0[0, 0] == 12  # 11.5, rounded up
    assert pedestal.s1[0, 0] == 100 * Fraction(-2 + 1, 2)
    assert pedestal.s2[0, 0] == 100 * Fraction(4 + 1, 2)
    assert pedestal.trained_variance[0, 0] == np.float32(2.25)
