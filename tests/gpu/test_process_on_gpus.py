"""A whole run on workers whose finders use a GPU, the emulated one: the dataset is the CPU's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from distributed import WorkerPlugin

from frame_archive import create_archive
from pipeline import ClusterConfig, open_cluster, process


class WithEmulatedGpu(WorkerPlugin):
    """Gives a worker the emulated device in the place of a GPU."""

    name = "emulated-gpu"

    def __init__(self, kernels: Path) -> None:
        self.kernels, self.tests = kernels, str(Path(__file__).parent)

    def setup(self, worker):
        sys.path.insert(0, self.tests)
        from emulation.compiling import CpuCompiler
        from emulation.device import EmulatedDevice

        import gpu.cupy_device

        gpu.cupy_device.open_device = lambda: EmulatedDevice(CpuCompiler(self.kernels))


@pytest.fixture
def archive(tmp_path):
    rng = np.random.default_rng(5)
    frames = rng.normal(1000, 5, (60, 24, 26))
    frames[rng.random(frames.shape) < 0.004] += 300
    writer = create_archive(str(tmp_path / "a.zarr"), shape=frames.shape, dtype=np.uint16, n_dark=120)
    writer.write_dark(0, rng.normal(1000, 5, (120, 24, 26)).round().astype(np.uint16))
    writer.write_frames(0, frames.round().astype(np.uint16))
    return tmp_path / "a.zarr"


def test_a_run_on_gpus_writes_what_a_run_on_cores_writes(archive, tmp_path):
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    with open_cluster(ClusterConfig(workers=1, threads=2)) as client:
        on_cores = process(archive, tmp_path / "cores.zarr", client=client, backend="cpu", batch_size=20, warmup=7)
        client.register_plugin(WithEmulatedGpu(kernels))
        on_gpus = process(archive, tmp_path / "gpus.zarr", client=client, backend="cuda", batch_size=20, warmup=7)
    assert len(on_cores.signal) > 100
    for name in ("signal", "x", "y", "frame_index", "n_clusters"):
        np.testing.assert_array_equal(on_gpus[name], on_cores[name])
    assert on_gpus.attrs["digest"] == on_cores.attrs["digest"]
    assert on_gpus.attrs["source"] == "photonflow, cuda finder"
