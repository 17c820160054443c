"""A program: the finder's answers with each barrier of its kernels left out, in a process of its own, which may crash.

    python -m emulation.without_barriers FOLDER

Prints a line a barrier: its file, its number in the file, and "right" or "wrong".
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from emulation.compiling import KERNELS, CpuCompiler
from emulation.device import EmulatedDevice

from finder import ClusterBatch, FinderParameters, Pedestal, open_finder
from gpu.device import DeviceError
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings

BARRIER = re.compile(r"__syncthreads\(\);")


def barriers() -> Iterator[tuple[Path, int]]:
    """Each barrier: its file, and how many are before it there."""
    for file in sorted(KERNELS.glob("*.cu")):
        for number in range(len(BARRIER.findall(file.read_text()))):
            yield file, number


def something_is_wrong(compiler: CpuCompiler, n_seeds: int = 8) -> bool:
    # Frames of a few tiles; and so many that the scan goes round more than once.
    return any(is_wrong(compiler, seed, case) for case in (((12, 37), 8), ((2, 5), 1030)) for seed in range(n_seeds))


Case = tuple[tuple[int, int], int]


@cache
def input_and_answer(case: Case) -> tuple[np.ndarray, Pedestal, ClusterBatch]:
    """Frames of a shape and so many, and what the reference says."""
    shape, n_frames = case
    rng = np.random.default_rng(4)
    lit = rng.random((n_frames, *shape)) < 0.1
    frames = (rng.normal(100, 2, lit.shape) + lit * 80).astype(np.uint16)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0))
    return frames, pedestal, open_finder("reference", FinderParameters(), shape).find(frames, pedestal)


def is_wrong(compiler: CpuCompiler, seed: int, case: Case) -> bool:
    """Whether the finder's answer is another than the reference's, or none."""
    frames, pedestal, expected = input_and_answer(case)
    settings = GpuSettings(n_streams=1, chunk_frames=len(frames))
    finder = CudaFinder(FinderParameters(), case[0], device=EmulatedDevice(compiler, seed), settings=settings)
    try:
        found = finder.find(frames, pedestal)
    except DeviceError:
        return True
    same = np.array_equal(found.signal, expected.signal) and np.array_equal(found.n_clusters, expected.n_clusters)
    return not (same and np.array_equal(found.pedestal.s1, expected.pedestal.s1))


def answer_without(file: Path, number: int, folder: Path) -> str:
    """Asked in a process of its own."""
    sources = shutil.copytree(KERNELS, folder / f"{file.stem}-{number}")
    text = file.read_text()
    place = list(BARRIER.finditer(text))[number]
    (sources / file.name).write_text(text[: place.start()] + text[place.end() :])
    shutil.copy(folder / "fibers.o", sources)
    child = os.fork()
    if child == 0:
        os._exit(int(something_is_wrong(CpuCompiler(sources, kernels=sources))))
    _, status = os.waitpid(child, 0)
    return "right" if status == 0 else "wrong"


def main() -> None:
    folder = Path(sys.argv[1])
    CpuCompiler(folder).fibers()
    for file, number in barriers():
        sys.stdout.write(f"{file.name} {number} {answer_without(file, number, folder)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
