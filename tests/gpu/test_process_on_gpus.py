"""A whole run on workers whose finders use a GPU, the emulated one: the dataset is the CPU's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed import WorkerPlugin

from cluster_store import open_clusters
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


# What Dask has a worker run before its first task: the same, for workers that the command line starts.
PRELOAD = """
import os, sys
from pathlib import Path

def dask_setup(worker):
    sys.path.insert(0, {tests!r})
    from test_process_on_gpus import WithEmulatedGpu

    WithEmulatedGpu(Path({kernels!r})).setup(worker)
    (Path({kernels!r}) / f"seen-{{os.getpid()}}").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def archive(tmp_path):
    rng = np.random.default_rng(5)
    frames = rng.normal(1000, 5, (60, 24, 26))
    frames[rng.random(frames.shape) < 0.004] += 300
    writer = create_archive(str(tmp_path / "a.zarr"), shape=frames.shape, dtype=np.uint16, n_dark=120)
    writer.write_dark(0, rng.normal(1000, 5, (120, 24, 26)).round().astype(np.uint16))
    writer.write_frames(0, frames.round().astype(np.uint16))
    return tmp_path / "a.zarr"


def test_a_run_on_gpus_writes_what_a_run_on_cores_writes(archive, tmp_path, kernels):
    with open_cluster(ClusterConfig(workers=1, threads=2)) as client:
        on_cores = process(archive, tmp_path / "cores.zarr", client=client, backend="cpu", batch_size=20, warmup=7)
        client.register_plugin(WithEmulatedGpu(kernels))
        on_gpus = process(archive, tmp_path / "gpus.zarr", client=client, backend="cuda", batch_size=20, warmup=7)
    assert len(on_cores.signal) > 100
    for name in ("signal", "x", "y", "frame_index", "n_clusters"):
        np.testing.assert_array_equal(on_gpus[name], on_cores[name])
    assert on_gpus.attrs["digest"] == on_cores.attrs["digest"]
    assert on_gpus.attrs["source"] == "photonflow, cuda finder"


def test_the_command_line_starts_a_worker_for_each_gpu_and_they_find_what_cores_find(
    archive, tmp_path, kernels, driver_environment, installed_cupy
):
    preload = tmp_path / "preload.py"
    preload.write_text(PRELOAD.format(tests=str(Path(__file__).parent), kernels=str(kernels)))
    environment = installed_cupy(driver_environment, "cupy-cuda12x") | {
        "DRIVER_CARDS": "3",
        "CUDA_VISIBLE_DEVICES": "2,0",
    }
    answers = []
    for name, options, more in (
        ("gpus", ["--gpus", "2"], {"DASK_DISTRIBUTED__WORKER__PRELOAD": str(preload)}),
        ("cores", ["--cpus", "1"], {}),
    ):
        command = [sys.executable, "-m", "workflows.process", str(archive), "--out", str(tmp_path / f"{name}.zarr")]
        command += [*options, "--batch-size", "20", "--warmup", "7", "--json", "--no-progress"]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment | more, timeout=240)
        assert ran.returncode == 0, ran.stderr
        answers.append(json.loads(ran.stdout))
    assert answers[0]["digest"] == answers[1]["digest"]
    assert sorted(file.read_text() for file in kernels.glob("seen-*")) == ["0", "2"]
    on_gpus, on_cores = (open_clusters(tmp_path / f"{name}.zarr").attrs for name in ("gpus", "cores"))
    assert on_gpus["source"] == "photonflow, cuda finder"
    assert on_gpus["device"] == "Model"
    assert on_cores["source"] == "photonflow, cpu finder"
    assert on_cores["device"] != "Model"
