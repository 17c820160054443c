"""A program: run kernels under a sanitizer, whose library is loaded before Python.

LD_PRELOAD=libtsan.so python -m emulation.sanitized FOLDER thread finder
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from emulation.compiling import CpuCompiler
from emulation.device import EmulatedDevice

from finder import FinderParameters, Pedestal, open_finder
from finder.products import PRODUCTS, ProductOptions
from gpu.device import KernelSource
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings

SHAPE = (35, 34)
N = 64


def main() -> None:
    folder, sanitizer, what = sys.argv[1:]
    compiler = CpuCompiler(Path(folder), sanitizer)
    if what == "finder":
        run_finder(compiler)
    else:
        run_kernel(compiler, what)


def run_finder(compiler: CpuCompiler) -> None:
    rng = np.random.default_rng(1)
    lit = rng.random((6, *SHAPE)) < 0.03
    frames = (rng.normal(100, 2, lit.shape) + lit * 80).round().astype(np.uint16)
    pedestal = Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0))
    for window, frames_a_launch in (((3, 3), 2), ((5, 3), 1)):
        parameters = FinderParameters(cluster_size=window)
        settings = GpuSettings(n_streams=1, chunk_frames=4, frames_a_launch=frames_a_launch, room=1e-5)
        counts = ProductOptions(PRODUCTS)
        device = EmulatedDevice(compiler, 3)
        finder = CudaFinder(parameters, SHAPE, device=device, settings=settings, counts=counts)
        chain = finder.chain(pedestal)
        found = chain.find(frames)
        expected = open_finder("reference", parameters, SHAPE).find(frames, pedestal)
        np.testing.assert_array_equal(found.signal, expected.signal)
        np.testing.assert_array_equal(chain.pedestal.s1, expected.pedestal.s1)
        assert [int(array.sum()) for array in chain.products.arrays] == [len(expected)] * 3


def run_kernel(compiler: CpuCompiler, name: str) -> None:
    device = EmulatedDevice(compiler)
    source = KernelSource(str(Path(__file__).parent / "faulty.cu"), (), (name,))
    stream, memories = device.stream(), [device.allocate(4 * 4 * N) for _ in range(2 if "reversed" in name else 1)]
    addresses = [memory.address for memory in memories]
    stream.launch(device.load(source).kernel(name), (4, 1, 1), (N, 1, 1), addresses)
    stream.synchronize()


if __name__ == "__main__":
    main()
