"""What `gpu_check.py` compares the GPU's answers with the CPU's on."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

from finder import FinderParameters, Pedestal, open_finder

ORACLE = Path(__file__).parents[1] / "tests" / "finder" / "oracle"
NOISES: tuple[Literal["running", "trained"], ...] = ("running", "trained")
Kernel = tuple[tuple[int, int], Literal["running", "trained"]]
"""What the CPU finder is compiled for: rows and columns of the window, noise."""
Case = tuple[str, FinderParameters, Any, Pedestal, Any]
"""Name, parameters, pixel mask or None, pedestal, frames (frame, y, x)."""


def oracle_cases() -> Iterator[Case]:
    """The oracle's cases, with both kinds of noise."""
    for path in sorted(ORACLE.glob("*.npz")):
        with np.load(path) as stored, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few darks and low thresholds, on purpose
            n_samples = int(stored["n_samples"])
            pedestal = Pedestal.from_dark(stored["dark"], n_samples=n_samples)
            mask = stored["pixel_mask"] if "pixel_mask" in stored.files else None
            for noise in NOISES:
                rows, columns = (int(side) for side in stored["cluster_size"])
                parameters = FinderParameters(
                    float(stored["n_sigma"]), (rows, columns), n_samples=n_samples, noise=noise
                )
                yield f"{path.stem} {noise}", parameters, mask, pedestal, stored["frames"]


def random_cases(count: int) -> Iterator[Case]:
    """Seeded ones, of all types of frames, windows and shapes, sparse and dense."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        shape = tuple(int(side) for side in rng.integers(1, 90, 2))
        dtype = np.dtype(rng.choice(["uint8", "uint16", "uint32", "int16", "int32"]))
        level = 60 if dtype == np.uint8 else 4600
        rows, columns = (int(side) for side in rng.choice([3, 5, 7, 9], 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            parameters = FinderParameters(
                float(rng.uniform(2, 7)), (rows, columns), n_samples=300, noise=NOISES[seed % 2]
            )
            dark = rng.normal(level, 4, (50, *shape)).astype(dtype)
            pedestal = Pedestal.from_dark(dark, n_samples=300)
        values = rng.normal(level, 4, (int(rng.integers(1, 120)), *shape))
        values += (rng.random(values.shape) < rng.choice([0.001, 0.05, 1.0])) * rng.exponential(60, values.shape)
        mask = rng.random(shape) < 0.1 if seed % 3 == 0 else None
        frames = np.clip(values, 0, np.iinfo(dtype).max).astype(dtype)
        yield f"random case {seed}", parameters, mask, pedestal, frames


def compile_for_cpu(cases: Iterable[Case], n_processes: int) -> list[Kernel]:
    """Have the CPU finder compiled for all of the cases, by several processes: it takes seconds for each kernel.

    What they compile is stored, and this process only has to load it. The kernels that the cases need.
    """
    needed = sorted({(parameters.cluster_size, parameters.noise) for _, parameters, *_ in cases})
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_compiled_for_cpu, needed))


def _compiled_for_cpu(kernel: Kernel) -> Kernel:
    size, noise = kernel
    parameters = FinderParameters(5.0, size, noise=noise)
    dark, frames = np.arange(4, dtype=np.uint16).reshape(4, 1, 1), np.zeros((1, 16, 16), np.uint16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pedestal = Pedestal.from_dark(np.broadcast_to(dark, (4, 16, 16)), n_samples=parameters.n_samples)
        open_finder("cpu", parameters, (16, 16)).find(frames, pedestal)
    return kernel
