from __future__ import annotations

import math

import numpy as np
import pytest

from finder import FinderParameters


def test_the_defaults_are_the_designs():
    parameters = FinderParameters()
    assert (parameters.n_sigma, parameters.cluster_size, parameters.n_samples) == (5.0, (3, 3), 1000)
    assert parameters.noise == "running"


@pytest.mark.parametrize("n_sigma", [0, -1, math.nan, math.inf, "five", None, 1e30])
def test_a_threshold_that_is_no_positive_number_is_refused(n_sigma):
    with pytest.raises(ValueError, match="n_sigma is"):
        FinderParameters(n_sigma=n_sigma)


@pytest.mark.parametrize("cluster_size", [(2, 3), (3, 4), (1, 3), (11, 3), (-3, 3), (3,), (3, 3, 3), 3, (3.0, 3.0)])
def test_a_window_that_is_not_odd_from_3_to_9_is_refused(cluster_size):
    with pytest.raises(ValueError, match="cluster_size is"):
        FinderParameters(cluster_size=cluster_size)


@pytest.mark.parametrize("n_samples", [0, -5, 1.5, None, True, 2**31])
def test_a_memory_that_is_no_positive_whole_number_is_refused(n_samples):
    with pytest.raises(ValueError, match="n_samples is"):
        FinderParameters(n_samples=n_samples)


def test_an_unknown_noise_is_refused():
    with pytest.raises(ValueError, match="'running' or 'trained'"):
        FinderParameters(noise="walking")


def test_a_low_threshold_with_running_noise_warns():
    with pytest.warns(UserWarning, match="shrinks from frame to frame"):
        FinderParameters(n_sigma=2.9)
    FinderParameters(n_sigma=3)
    FinderParameters(n_sigma=2, noise="trained")


def test_numpy_numbers_become_plain_ones():
    parameters = FinderParameters(np.float32(5), np.array([5, 3]), np.int64(100))
    assert parameters == FinderParameters(5.0, (5, 3), 100)
    assert [type(side) for side in parameters.cluster_size] == [int, int]
    assert type(parameters.n_samples) is int
    assert type(parameters.n_sigma) is float
