"""Every kernel becomes machine code for every architecture, with all its values in registers."""

import pytest

from finder import FinderParameters
from finder.products import PRODUCTS, ProductOptions
from gpu.chunk_plan import ChunkPlan, FrameKind
from gpu.compiling import KERNELS, compile_kernels
from gpu.kernel_set import sources

ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)
WINDOWS = ((3, 3), (5, 5), (9, 9), (3, 5))
KINDS = (FrameKind("uint16", wide=False), FrameKind("float32", wide=False), FrameKind("uint32", wide=True))
# So that three blocks of 256 threads fit onto a multiprocessor of 65 536 registers.
MOST_REGISTERS = 80


def check(architecture, window=(3, 3), noise="running", kind=KINDS[0]):
    parameters = FinderParameters(cluster_size=window, noise=noise)
    for source in sources(ChunkPlan(parameters, (400, 400), kind, products=ProductOptions(PRODUCTS))):
        compiled = compile_kernels(KERNELS / source.file, architecture, dict(source.definitions), report=True)
        assert {used.kernel for used in compiled.resources} == set(source.kernels)
        for used in compiled.resources:
            assert used.spill_bytes == used.stack_bytes == 0, used
            assert used.registers <= MOST_REGISTERS, used


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_compile_without_spills_for_every_architecture(architecture):
    check(architecture)


@pytest.mark.parametrize(("window", "noise"), [((5, 5), "trained"), ((9, 9), "running")])
def test_and_for_larger_windows(window, noise):
    check(90, window, noise)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("noise", ["running", "trained"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_and_for_all_windows_and_frames(architecture, window, noise, kind):
    check(architecture, window, noise, kind)
