"""How fast `ds.photons` goes through a store of clusters, for one core.

    python benchmarks/cluster_analysis.py --clusters 5e6 --out analysis.json

Simulated photons (seeded) are written as a cluster dataset, and each question is asked of it with Dask's synchronous
scheduler: reading, unpacking and counting in one thread after the other. Medians of the repeats; "a core" is per second
of processor time, of all threads together, which other work on the machine disturbs less than the time on the clock.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr
from scipy.special import ndtr

import analysis  # noqa: F401  (gives datasets the accessor `photons`)
from cluster_store import ClusterWriter, DatasetLayout, create_dataset, finish_dataset, write_pedestal
from finder import Pedestal

SHAPE = (400, 400)
NOISE = 18.0
CLUSTERS_A_FRAME = 2400
DIFFERENT_WINDOWS = 1 << 20
IN_MEMORY = 2_000_000


def windows(n: int, rng: np.random.Generator) -> Any:
    """`n` windows (cluster, cluster_y, cluster_x) of copper's Kα and Kβ at 100 ADU/keV, int32."""
    edges = np.arange(-1.5, 2)[:, np.newaxis]
    along_y, along_x = (np.diff(ndtr((edges - rng.uniform(-0.5, 0.5, n)) / 0.3), axis=0) for _ in range(2))
    energy = np.where(rng.random(n) < 0.12, 890.5, 804.8) + rng.normal(0, 6, n)
    signal = (along_y[:, np.newaxis] * along_x[np.newaxis] * energy).transpose(2, 0, 1)
    return np.rint(signal + rng.normal(0, NOISE, signal.shape)).astype(np.int32)


def write_store(path: Path, n: int) -> None:
    """A dataset of `n` clusters in chunks of the usual size; windows repeat after a million."""
    rng = np.random.default_rng(1)
    signal = windows(min(n, DIFFERENT_WINDOWS), rng)
    n_frames = -(-n // CLUSTERS_A_FRAME)
    layout = DatasetLayout(n_frames, 0, 2000, SHAPE, (3, 3))
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    rows = layout.rows_per_chunk
    for first in range(0, n, rows):
        number = np.arange(first, min(first + rows, n))
        frame = (number // CLUSTERS_A_FRAME).astype(np.uint32)
        y, x = (rng.integers(0, side, len(number)).astype(np.uint16) for side in SHAPE)
        order = np.lexsort((x, y, frame))
        writer.write_clusters(first, frame, y[order], x[order], signal[number % len(signal)])
    counts = np.full(n_frames, CLUSTERS_A_FRAME, np.uint32)
    counts[-1] = n - CLUSTERS_A_FRAME * (n_frames - 1)
    writer.write_frames(0, counts, np.arange(n_frames, dtype=np.uint64), np.zeros(n_frames, np.uint8))
    write_pedestal(path, Pedestal.from_mean_and_noise(np.zeros(SHAPE), np.full(SHAPE, NOISE), 1000))
    finish_dataset(path, layout, n, {})


def questions(ds: xr.Dataset) -> dict[str, Callable[[], Any]]:
    """What is timed."""
    photons = ds.photons
    interpolation = ds.isel(cluster=slice(0, 500_000)).load().photons.interpolation()

    def read(*names: str) -> Callable[[], Any]:
        # Each chunk is unpacked and dropped.
        return lambda: [ds[name].data.map_blocks(lambda block: block[:1]).compute() for name in names]

    def touch(values: xr.DataArray) -> Any:
        return values.data.map_blocks(lambda block: block[:1]).compute()

    return {
        "read signal alone": read("signal"),
        "sum of each window": lambda: touch(photons.energy()),
        "largest 2×2 of each window": lambda: touch(photons.energy("largest_2x2")),
        "spectrum": lambda: photons.spectrum(500, (0, 1200)),
        "spectrum, keV by a gain map": lambda: photons.calibrated(np.full(SHAPE, 100.0)).spectrum(500, (0, 12)),
        "read y and x alone": read("y", "x"),
        "hit map": photons.hit_map,
        "eta histogram": photons.eta_histogram,
        "positions": lambda: touch(photons.positions(interpolation).x),
        "region, spectrum": lambda: photons.roi(y=(0, 200)).spectrum(500, (0, 1200)),
        "noise cuts, spectrum": lambda: photons.noise_cuts(5).spectrum(500, (0, 1200)),
        "isolated, energy window, rate": lambda: photons.isolated(3).energy_window(600, 1000).rate(100),
        "spectra of 400×400 pixels": lambda: photons.pixel_spectra(100, (0, 1200)),
    }


def questions_in_memory(ds: xr.Dataset) -> dict[str, Callable[[], Any]]:
    """What the same takes once the clusters are in memory."""
    photons = ds.photons
    interpolation = photons.interpolation()
    return {
        "sum, in memory": photons.energy,
        "spectrum, in memory": lambda: photons.spectrum(500, (0, 1200)),
        "hit map, in memory": photons.hit_map,
        "eta histogram, in memory": photons.eta_histogram,
        "positions, in memory": lambda: photons.positions(interpolation),
    }


def measure(ask: Callable[[], Any], n: int, repeats: int) -> dict[str, float]:
    """Median seconds on the clock and of the processor, after a first time that compiles and warms up."""
    ask()
    wall, cpu = [], []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        ask()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    seconds, cpu_seconds = statistics.median(wall), statistics.median(cpu)
    return {
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu_seconds, 4),
        "million_clusters_per_second": round(n / seconds / 1e6, 2),
        "million_clusters_per_second_and_core": round(n / cpu_seconds / 1e6, 2),
    }


def main() -> None:
    """Measure, show a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=lambda text: int(float(text)), default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", type=Path, help="where the dataset is, or is made; left out, a temporary folder")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="synchronous"):
        path = options.store or Path(folder) / "clusters.zarr"
        if not path.exists():
            write_store(path, options.clusters)
        ds = xr.open_zarr(path)
        n = ds.sizes["cluster"]
        results = {}
        some = ds.isel(cluster=slice(0, IN_MEMORY)).load()
        asked = [(name, ask, n) for name, ask in questions(ds).items()]
        asked += [(name, ask, some.sizes["cluster"]) for name, ask in questions_in_memory(some).items()]
        for name, ask, clusters in asked:
            results[name] = measure(ask, clusters, options.repeats)
            rate, core = (results[name][f"million_clusters_per_second{unit}"] for unit in ("", "_and_core"))
            sys.stdout.write(f"{name:32} {rate:8.1f} million clusters/s {core:8.1f} million/s a core\n")
            sys.stdout.flush()
    if options.out:
        options.out.write_text(json.dumps({"clusters": n, "repeats": options.repeats, "results": results}, indent=2))


if __name__ == "__main__":
    main()
