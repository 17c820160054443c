"""The clusters that noise makes are as many as the theory says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder
from finder.false_clusters import expected_false_clusters, normal_cdf

SHAPE = (96, 128)


def counted(parameters, n_darks, n_frames, masked=None, noise=18.0, shape=SHAPE) -> np.ndarray:
    """Clusters in each frame of seeded noise, after a pedestal trained on as seeded darks."""
    rng = np.random.default_rng(11)
    mean = rng.uniform(4000, 4500, shape).astype(np.float32)

    def expose(n: int) -> np.ndarray:
        values = rng.standard_normal((n, *shape), np.float32)
        return np.rint(values * np.float32(noise) + mean).astype(np.uint16)

    pedestal = Pedestal.from_dark(expose(n_darks), parameters.n_samples)
    return open_finder("cpu", parameters, shape, masked).find(expose(n_frames), pedestal).n_clusters


@pytest.mark.parametrize(
    ("n_darks", "n_frames", "options"),
    [
        (2, 40, {}),
        (2, 40, {"noise": "trained"}),
        (5, 40, {}),
        (10, 60, {"n_sigma": 4.0}),
        (10, 40, {"n_sigma": 3.0, "noise": "trained"}),
        (20, 300, {"n_sigma": 3.5, "n_samples": 100}),
        (150, 40, {"n_sigma": 3.0, "cluster_size": (3, 7)}),
        (150, 40, {"n_sigma": 3.0, "cluster_size": (9, 9)}),
    ],
)
@pytest.mark.filterwarnings("ignore:only .* dark frames")
def test_empty_frames_have_as_many_clusters_as_expected(n_darks, n_frames, options):
    parameters = FinderParameters(**options)
    counts = counted(parameters, n_darks, n_frames)
    expected = expected_false_clusters(parameters, SHAPE, n_darks, n_frames=n_frames)
    total = counts.sum()
    assert total > 300
    # Pixels whose noise came out low fire again and again, so that counts scatter by more than Poisson's law: twice.
    tolerance = 0.05 + 2 * 3 / math.sqrt(total)
    assert total / n_frames == pytest.approx(expected.a_frame, rel=tolerance)
    first = counts[0]
    assert first == pytest.approx(expected.first_frame, rel=0.05 + 2 * 3 / math.sqrt(first))


@pytest.mark.filterwarnings("ignore:only .* dark frames")
def test_masked_pixels_have_no_clusters_and_leave_those_around_them_more():
    masked = np.random.default_rng(1).random(SHAPE) < 0.3
    parameters = FinderParameters()
    counts = counted(parameters, 5, 40, masked)
    expected = expected_false_clusters(parameters, SHAPE, 5, masked, n_frames=40)
    assert counts.mean() == pytest.approx(expected.a_frame, rel=0.05 + 6 / math.sqrt(counts.sum()))
    whole = expected_false_clusters(parameters, SHAPE, 5, n_frames=40)
    assert 0.7 < expected.a_frame / whole.a_frame < 1


def test_many_darks_leave_what_an_exactly_known_noise_does():
    parameters = FinderParameters()
    exact = expected_false_clusters(parameters, (400, 400), None, tracking=False).a_frame
    # Far above the noise a window has one maximum, and its sum counts when that is the middle pixel: one in nine.
    tail = 0.5 * math.erfc(5 / math.sqrt(2))
    assert exact == pytest.approx(160_000 * tail * (1 + 1 / 9), rel=0.01)
    assert expected_false_clusters(parameters, (400, 400), 100_000, tracking=False).a_frame == pytest.approx(
        exact, rel=0.01
    )
    expected = [expected_false_clusters(parameters, (400, 400), n).a_frame for n in (2, 10, 20, 100, 1000)]
    assert expected == sorted(expected, reverse=True)


def test_a_chain_of_many_frames_comes_to_rest():
    long, longer = (expected_false_clusters(FinderParameters(), SHAPE, 10, n_frames=n).a_frame for n in (10**7, 10**8))
    assert longer == pytest.approx(long, rel=0.05)
    exact = expected_false_clusters(FinderParameters(), SHAPE, None, n_frames=10**8).a_frame
    assert longer == pytest.approx(exact, rel=0.05)


def test_without_tracking_every_frame_is_like_the_first():
    expected = expected_false_clusters(FinderParameters(), SHAPE, 10, tracking=False)
    assert expected.a_frame == expected.first_frame
    assert expected_false_clusters(FinderParameters(), SHAPE, 10, n_frames=1).a_frame == expected.first_frame


def test_a_frame_that_is_all_masked_has_none_and_one_dark_says_nothing():
    assert expected_false_clusters(FinderParameters(), (4, 5), 10, np.ones((4, 5), bool)).a_frame == 0
    with pytest.raises(ValueError, match="at least 2"):
        expected_false_clusters(FinderParameters(), (4, 5), 1)


def test_the_normal_distribution_is_that_of_the_standard_library():
    x = np.array([[-8.0, -1.0], [0.0, 3.0]])
    np.testing.assert_allclose(normal_cdf(x), [[6.22096e-16, 0.158655254], [0.5, 0.998650102]], rtol=1e-5)
