"""Every backend meets the oracle's answers bit for bit: a separate scalar program computed them from the design."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder

ORACLE = Path(__file__).parent / "oracle"
CASES = sorted(path.stem for path in ORACLE.glob("*.npz"))
BACKENDS = ["reference", "cpu"]


def bits(array):
    """The bits of a float32 array: equal bits, not only equal values."""
    assert array.dtype == np.float32
    return np.ascontiguousarray(array).view(np.uint32)


@pytest.fixture(params=CASES)
def answers(request):
    with np.load(ORACLE / f"{request.param}.npz") as stored:
        return {key: stored[key] for key in stored.files}


def trained(answers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Several cases have few darks on purpose.
        return Pedestal.from_dark(answers["dark"], n_samples=int(answers["n_samples"]))


def parameters(answers, noise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # One case has a low threshold on purpose.
        return FinderParameters(
            n_sigma=float(answers["n_sigma"]),
            cluster_size=tuple(answers["cluster_size"]),
            n_samples=int(answers["n_samples"]),
            noise=noise,
        )


def test_the_oracle_is_complete():
    assert len(CASES) == 23


def test_training_is_exact(answers):
    pedestal = trained(answers)
    np.testing.assert_array_equal(pedestal.x0, answers["x0"])
    np.testing.assert_array_equal(bits(pedestal.trained_variance), bits(answers["trained_variance"]))


@pytest.mark.parametrize("noise", ["running", "trained"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_clusters_and_the_final_pedestal_are_exact(answers, backend, noise):
    frames = answers["frames"]
    finder = open_finder(backend, parameters(answers, noise), frames.shape[1:], answers.get("pixel_mask"))
    batch = finder.find(frames, trained(answers))
    expected = answers[f"{noise}_frame_y_x"]
    np.testing.assert_array_equal(np.stack([batch.frame_index, batch.y, batch.x], axis=1), expected)
    np.testing.assert_array_equal(bits(batch.signal), bits(answers[f"{noise}_signal"]))
    np.testing.assert_array_equal(batch.n_clusters, np.bincount(expected[:, 0], minlength=len(frames)))
    np.testing.assert_array_equal(bits(batch.pedestal.s1), bits(answers[f"{noise}_s1"]))
    np.testing.assert_array_equal(bits(batch.pedestal.s2), bits(answers[f"{noise}_s2"]))
