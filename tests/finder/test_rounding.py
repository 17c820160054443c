from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from finder import rounded


def test_halves_round_away_from_zero():
    signal = np.array([[0.5, -0.5, 1.5, -2.5, 0.49999997, -0.49999997, 8388607.5, -8388607.5]], np.float32)
    stored = rounded(signal, np.int32)
    assert stored.dtype == np.int32
    assert stored.tolist() == [[1, -1, 2, -3, 0, 0, 8388608, -8388608]]


def test_rounding_is_exact_over_all_magnitudes():
    rng = np.random.default_rng(0)
    signal = (rng.normal(size=70_000) * 2.0 ** rng.integers(-30, 28, 70_000)).astype(np.float32)
    expected = [int(Decimal(float(value)).quantize(Decimal(1), ROUND_HALF_UP)) for value in signal]
    assert rounded(signal, "int32").tolist() == expected


def test_the_limits_of_int32():
    assert rounded(np.array([-(2.0**31), 2147483520.0], np.float32), np.int32).tolist() == [-(2**31), 2147483520]
    for value in (2.0**31, -2147483904.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="float32"):
            rounded(np.array([0, value], np.float32), np.int32)


def test_float32_stays_as_it_is_and_others_are_refused():
    signal = np.array([0.3], np.float32)
    assert rounded(signal, np.float32) is signal
    with pytest.raises(ValueError, match="int32 or float32"):
        rounded(signal, np.int16)


def test_rounding_does_not_depend_on_the_order_in_memory():
    signal = np.random.default_rng(1).normal(0, 9, (4, 3, 5)).astype(np.float32)
    expected = [int(Decimal(float(value)).quantize(Decimal(1), ROUND_HALF_UP)) for value in signal.ravel()]
    for given in (np.asfortranarray(signal), np.repeat(signal, 2, axis=2)[:, :, ::2], signal.astype(">f4")):
        assert rounded(given, np.int32).ravel().tolist() == expected


def test_an_empty_signal_stays_empty():
    assert rounded(np.empty((0, 3, 3), np.float32), np.int32).shape == (0, 3, 3)
