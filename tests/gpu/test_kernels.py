"""The kernels by themselves: each barrier is needed, and denormals are kept."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from emulation.device import EmulatedDevice
from emulation.without_barriers import barriers, something_is_wrong

from finder import FinderParameters, Pedestal, open_finder
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings


def test_each_barrier_is_needed(cpu_compiler, emulation_environment, tmp_path):
    assert not something_is_wrong(cpu_compiler, n_seeds=2)
    command = [sys.executable, "-m", "emulation.without_barriers", str(tmp_path)]
    result = subprocess.run(command, env=emulation_environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    expected = [f"{file.name} {number} wrong" for file, number in barriers()]
    assert len(expected) >= 6
    assert result.stdout.splitlines() == expected


def constant_pixels(cpu_compiler, n_frames, n_samples):
    """Pixels that say the same in each frame: the mean goes there, and its square below any normal float32."""
    shape = 3, 7
    parameters = FinderParameters(n_samples=n_samples)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.3), np.full(shape, 2.0), n_samples)
    frames = np.full((100, *shape), 100, np.uint16)
    device = EmulatedDevice(cpu_compiler)
    finders = (
        CudaFinder(parameters, shape, device=device, settings=GpuSettings(n_streams=1)),
        open_finder("reference", parameters, shape),
    )
    found, expected = (finder.chain(pedestal) for finder in finders)
    went_through_denormals = False
    for _ in range(n_frames // len(frames)):
        found.find(frames)
        expected.find(frames)
        after = expected.pedestal
        r = after.s1 * parameters.inverse_n_samples
        squares = np.stack([r * r, after.s2 * parameters.inverse_n_samples])
        went_through_denormals |= bool(((squares > 0) & (squares < np.finfo(np.float32).tiny)).any())
        for name in ("s1", "s2"):
            np.testing.assert_array_equal(
                getattr(found.pedestal, name).view(np.uint32), getattr(after, name).view(np.uint32)
            )
    assert went_through_denormals


def test_constant_pixels_keep_their_denormals(cpu_compiler):
    constant_pixels(cpu_compiler, 1100, n_samples=20)


@pytest.mark.slow
def test_constant_pixels_keep_their_denormals_for_a_long_time(cpu_compiler):
    constant_pixels(cpu_compiler, 50_000, n_samples=1000)
