"""What is reckoned to be page-locked is what a finder page-locks, to the byte."""

import numpy as np
import pytest
from emulation.device import EmulatedDevice

from finder import FinderParameters, Pedestal
from gpu.finder import CudaFinder
from gpu.kernel_set import kind_of
from gpu.pinned_budget import pinned_bytes
from gpu.settings import GpuSettings


class Counting(EmulatedDevice):
    pinned_total = 0

    def allocate_pinned(self, nbytes):
        self.pinned_total += nbytes
        return super().allocate_pinned(nbytes)


@pytest.mark.parametrize(("window", "dtype"), [((3, 3), np.uint16), ((3, 3), np.uint32)])
def test_the_budget_is_what_is_page_locked(cpu_compiler, window, dtype):
    device, shape, parameters = Counting(cpu_compiler), (20, 30), FinderParameters(cluster_size=window)
    settings = GpuSettings(n_streams=2, chunk_frames=8)
    finder = CudaFinder(parameters, shape, device=device, settings=settings)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0))
    frames = np.full((3, *shape), 100, dtype)
    kind = kind_of(frames.dtype, 100)
    # Both at work at once, so that both have their memory.
    with finder.context(kind), finder.context(kind):
        pass
    assert len(finder.find(frames, pedestal)) == 0
    assert device.pinned_total == pinned_bytes(parameters, shape, frames.dtype, settings)


def test_what_is_not_page_locked_costs_nothing():
    assert pinned_bytes(FinderParameters(), (400, 400), np.dtype("u2"), GpuSettings(pinned=False, graphs=False)) == 0
