"""The ceilings of a GPU are measured by what moves and computes: on the emulated device, for their counting."""

import numpy as np
import pytest
from emulation.device import EmulatedDevice

from gpu.compiling import KERNELS, compile_kernels
from gpu.device import KernelSource
from pipeline.ceilings.gpu import BEYOND_CACHES, CHAINS, GPU_CEILINGS, WHAT, GpuWork


@pytest.mark.parametrize("kind", GPU_CEILINGS)
def test_each_ceiling_counts_what_was_done(cpu_compiler, kind):
    device = EmulatedDevice(cpu_compiler)
    work = GpuWork(kind, nbytes=1000, repeats=3, blocks=2, steps=5)
    step = work.on(device)
    expected = {
        "H2D and D2H at once": 2 * 3 * 1000,
        "device memory": 2 * 3 * BEYOND_CACHES * 1000,
        "GPU float32": 2 * CHAINS * 5 * 2 * 256,
    }.get(kind, 3 * 1000)
    for _ in range(2):
        assert step().amount == expected
    assert str(work) == kind
    assert WHAT[kind]


def test_the_arithmetic_is_done(device):
    program = device.load(KernelSource("float32_rate.cu", (("CHAINS", CHAINS),), ("float32_rate",)))
    results, landing, stream = device.allocate(4 * 256), device.allocate_pinned(4 * 256), device.stream()
    stream.launch(program.kernel("float32_rate"), (1, 1, 1), (256, 1, 1), (results.address, np.int32(3)))
    stream.download(landing.address, results.address, 4 * 256)
    stream.synchronize()
    values = (np.arange(CHAINS, dtype=np.float32)[:, None] + np.arange(256, dtype=np.float32)).astype(np.float32)
    for _ in range(3):
        values = values * np.float32(0.999) + np.float32(0.001)
    total = np.zeros(256, np.float32)
    for chain in values:
        total += chain
    np.testing.assert_array_equal(landing.array.view(np.float32), total)


def test_on_a_gpu_none_of_the_arithmetic_is_left_out():
    (used,) = compile_kernels(KERNELS / "float32_rate.cu", 90, {"CHAINS": CHAINS}, report=True).resources
    assert used.registers >= CHAINS
    assert used.spill_bytes == 0


def test_a_ceiling_that_there_is_none_of_is_refused(device):
    with pytest.raises(ValueError, match="no ceiling of a GPU is called 'L2'"):
        GpuWork("L2").on(device)
