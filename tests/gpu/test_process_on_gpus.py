"""A whole run on workers whose finders use a GPU, the emulated one: the dataset is the CPU's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from distributed import WorkerPlugin

from cluster_store import open_clusters, open_dataset
from finder.products import PRODUCTS, ProductOptions, SpectrumBins
from frame_archive import create_archive
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare, process
from pipeline.ceilings import Ceilings, MeasuredCeiling, Spread, keep_ceilings
from pipeline.ceilings.gpu import GPU_CEILINGS
from pipeline.ceilings.machine import machine
from pipeline.watching import page_html
from pipeline.watching.gpu_memory import GPU_METRIC
from pipeline.watching.page import workers_of
from pipeline.watching.run_board import EXTENSION


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


@pytest.fixture(scope="module")
def client(kernels):
    """Of a worker that has the emulated GPU, and two threads."""
    with open_cluster(ClusterConfig(workers=1, threads=2)) as client:
        client.register_plugin(WithEmulatedGpu(kernels))
        yield client


def test_a_run_on_gpus_writes_what_a_run_on_cores_writes(archive, tmp_path, client):
    on_cores = process(archive, tmp_path / "cores.zarr", client=client, backend="cpu", batch_size=20, warmup=7)
    on_gpus = process(archive, tmp_path / "gpus.zarr", client=client, backend="cuda", batch_size=20, warmup=7)
    assert len(on_cores.signal) > 100
    for name in ("signal", "x", "y", "frame_index", "n_clusters"):
        np.testing.assert_array_equal(on_gpus[name], on_cores[name])
    assert on_gpus.attrs["digest"] == on_cores.attrs["digest"]
    assert on_gpus.attrs["source"] == "photonflow, cuda finder"


GPU_STAGES = ("H2D", "kernel", "D2H")


def run(client, archive, out, backend, **options):
    return execute(prepare(RunOptions(str(archive), out=str(out), backend=backend, batch_size=20, **options)), client)


@pytest.mark.parametrize("signal_dtype", ["int32", "float32"])
@pytest.mark.parametrize("clusters", [True, False], ids=["with the list", "without"])
def test_products_of_gpus_are_those_of_cores(archive, tmp_path, client, clusters, signal_dtype):
    asked = {
        "products": ProductOptions(PRODUCTS, SpectrumBins(-20, 600, 4), eta_bins=30),
        "clusters": clusters,
        "signal_dtype": signal_dtype,
        "warmup": 7,
    }
    outs = {backend: tmp_path / f"{backend}.zarr" for backend in ("cpu", "cuda")}
    results = {backend: run(client, archive, out, backend, **asked) for backend, out in outs.items()}
    assert results["cpu"].digest == results["cuda"].digest
    on_cores, on_gpus = (xr.open_zarr(out, group="products").load() for out in outs.values())
    xr.testing.assert_identical(on_cores, on_gpus)
    frames = open_dataset(outs["cuda"])
    assert int(on_gpus.hit_map.sum()) == int(frames.n_clusters.sum()) > 100
    moved = xr.open_zarr(outs["cuda"], group="batches").d2h_bytes.values
    assert (moved > 0).all() if clusters else (moved == 0).all()


def test_the_stages_of_gpus_are_in_all_that_a_run_says_of_itself(archive, tmp_path, client, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rates = {
        name: MeasuredCeiling(name, "", "op/s" if name == "GPU float32" else "B/s", Spread(1e12, 1e12, 1e12), cores=1)
        for name in GPU_CEILINGS
    }
    keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", rates))
    progress = []
    prepared = prepare(RunOptions(str(archive), out=str(tmp_path / "g.zarr"), backend="cuda", batch_size=20, warmup=7))
    summary = execute(prepared, client, on_progress=progress.append).summary
    uses = {bar.name: bar.use for bar in summary.account.bars}
    names = list(uses)
    assert names[names.index("find") : names.index("write")] == ["find", *GPU_STAGES]
    batches = xr.open_zarr(tmp_path / "g.zarr", group="batches").load()
    frames = prepared.archive.n_frames + 2 * 7  # Two batches have frames before them that warm them up.
    assert uses["H2D"].nbytes == frames * prepared.archive.frame_nbytes == int(batches.h2d_bytes.sum())
    # Of 3×3 float32, the frame, y and x.
    assert uses["D2H"].nbytes == summary.clusters * 44 == int(batches.d2h_bytes.sum())
    for name in GPU_STAGES:
        column = batches[f"{name.lower()}_seconds"]
        assert (column > 0).all()
        assert uses[name].busy_seconds == pytest.approx(float(column.sum()))
        # Two threads share the GPU: moments in which both are at a stage count once.
        assert uses[name].busy_seconds <= summary.account.seconds
    # They are in what workers waited for, and not beside it.
    whole = summary.account.workers * (summary.startup_seconds + summary.account.seconds)
    assert summary.account.split.total == pytest.approx(whole)
    told = json.loads(json.dumps(summary.as_dict()))
    ceilings = {name: told["stages"][name]["ceiling"] for name in GPU_STAGES}
    assert (ceilings["H2D"], ceilings["D2H"]) == ("H2D, pinned", "D2H, pinned")
    assert ceilings["kernel"] in ("device memory", "GPU float32")
    assert [told["stages"][name]["within"] for name in ("find", *GPU_STAGES)] == [None, "find", "find", "find"]
    assert told["stages"]["H2D"]["share_of_ceiling"] == pytest.approx(
        uses["H2D"].nbytes / uses["H2D"].busy_seconds / 1e12
    )
    assert told["account"]["gpus"] == 1
    kept = json.loads(xr.open_zarr(tmp_path / "g.zarr").attrs["throughput"])
    assert kept["stages"]["kernel"]["nbytes"] == uses["H2D"].nbytes
    assert [use.name for use in progress[-1].uses] == names


def test_the_page_of_a_run_shows_the_gpus_their_memory_and_their_stages(archive, tmp_path, client):
    shown = []

    def look(progress):
        for _ in range(1000):
            if html := client.run_on_scheduler(as_shown):
                shown.append(html)
                return
            client.run(_heartbeat)

    prepared = prepare(RunOptions(str(archive), out=str(tmp_path / "g.zarr"), backend="cuda", batch_size=20))
    execute(prepared, client, on_progress=look)
    assert "Workers and GPUs" in shown[-1]
    assert re.search(
        r"<span class='quiet'>GPU</span>.*<td[^>]*>\d\S* .B<span class=\"track\">.*<td[^>]*>\d\S* .B<span", shown[-1]
    )
    stages = client.run_on_scheduler(as_shown, of_workers=False)
    inner = re.findall(r'class="stage[^"]* inner"><span>(\w+)</span>', stages)
    assert inner == list(GPU_STAGES)
    # What told of the GPU's memory is gone with the run.
    assert client.run(lambda dask_worker: [name for name in dask_worker.metrics if name.startswith(GPU_METRIC)]) == {
        worker: [] for worker in client.scheduler_info()["workers"]
    }


async def _heartbeat(dask_worker):
    await dask_worker.heartbeat()


def as_shown(dask_scheduler, of_workers=True):
    """The workers of the last run, or its stages, as the page has them; "" until a heartbeat told of a GPU."""
    run = list(dask_scheduler.extensions[EXTENSION].runs.values())[-1]
    there = list(workers_of(dask_scheduler))
    if not of_workers:
        return page_html.stages(run)
    return page_html.workers(run, there, time.time()) if any(worker.device for worker in there) else ""


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
