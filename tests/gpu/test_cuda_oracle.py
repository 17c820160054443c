"""The CUDA finder, on the emulated device, meets the oracle's answers bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from emulation.device import EmulatedDevice

from finder import FinderParameters, Pedestal
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings

ORACLE = Path(__file__).parents[1] / "finder" / "oracle"
CASES = sorted(path.stem for path in ORACLE.glob("*.npz"))


def bits(array):
    assert array.dtype == np.float32
    return np.ascontiguousarray(array).view(np.uint32)


@pytest.mark.parametrize("noise", ["running", "trained"])
@pytest.mark.parametrize("case", CASES)
def test_clusters_and_the_final_pedestal_are_exact(cpu_compiler, case, noise):
    with np.load(ORACLE / f"{case}.npz") as stored, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Few darks and a low threshold on purpose.
        answers = {key: stored[key] for key in stored.files}
        n_samples = int(answers["n_samples"])
        pedestal = Pedestal.from_dark(answers["dark"], n_samples=n_samples)
        parameters = FinderParameters(
            float(answers["n_sigma"]), tuple(answers["cluster_size"]), n_samples=n_samples, noise=noise
        )
    frames = answers["frames"]
    device = EmulatedDevice(cpu_compiler, seed=CASES.index(case))
    settings = GpuSettings(n_streams=1, chunk_frames=8)
    finder = CudaFinder(parameters, frames.shape[1:], answers.get("pixel_mask"), device=device, settings=settings)
    batch = finder.find(frames, pedestal)
    expected = answers[f"{noise}_frame_y_x"]
    np.testing.assert_array_equal(np.stack([batch.frame_index, batch.y, batch.x], axis=1), expected)
    np.testing.assert_array_equal(bits(batch.signal), bits(answers[f"{noise}_signal"]))
    np.testing.assert_array_equal(batch.n_clusters, np.bincount(expected[:, 0], minlength=len(frames)))
    np.testing.assert_array_equal(bits(batch.pedestal.s1), bits(answers[f"{noise}_s1"]))
    np.testing.assert_array_equal(bits(batch.pedestal.s2), bits(answers[f"{noise}_s2"]))
