"""What a GPU, and the bus to it, do at best: copies to and from it, copies within it, and arithmetic.

Times are the host's, from before the first of several operations is queued to after the last is done, with nothing else
on the GPU: events of several streams read up to 3.5 times too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np

from gpu.device import Device, KernelSource
from pipeline.ceilings.crew import Done

Kind = Literal["H2D, pinned", "H2D, pageable", "D2H, pinned", "H2D and D2H at once", "device memory", "GPU float32"]
GPU_CEILINGS: tuple[str, ...] = get_args(Kind)
WHAT = {
    "H2D, pinned": "host to GPU, page-locked memory",
    "H2D, pageable": "host to GPU, plain memory",
    "D2H, pinned": "GPU to host, page-locked memory",
    "H2D and D2H at once": "both, on two streams, added up",
    "device memory": "a = b on the GPU, read and written",
    "GPU float32": "multiply and add, not fused",
}
CHAINS = 8
BEYOND_CACHES = 8  # A GPU's own cache holds up to 126 MB, which copies within it have to be far beyond.
THREADS = 256


@dataclass(frozen=True)
class GpuWork:
    """Work for the first GPU that a process sees.

    Args:
        kind: Which ceiling.
        nbytes: Of each copy.
        repeats: Operations that are queued before they are waited for.
        blocks: Of threads that do arithmetic.
        steps: Multiplications and additions of each of a thread's chains.
    """

    kind: str
    nbytes: int = 64 << 20
    repeats: int = 8
    blocks: int = 4096
    steps: int = 4096

    def __str__(self) -> str:
        return self.kind

    @property
    def unit(self) -> str:
        """Of the rate."""
        return "op/s" if self.kind == "GPU float32" else "B/s"

    def prepared(self, member: int) -> Callable[[], Done]:
        """A few operations, in a process that has the GPU."""
        return self.on(_device())

    def on(self, device: Device) -> Callable[[], Done]:
        """A few operations on a device.

        Raises:
            ValueError: No such ceiling.
        """
        match self.kind:
            case "GPU float32":
                return self._arithmetic(device)
            case "device memory":
                return self._within(device)
            case "H2D, pinned" | "H2D, pageable" | "D2H, pinned" | "H2D and D2H at once":
                return self._across(device)
        raise ValueError(f"no ceiling of a GPU is called {self.kind!r}")

    def _across(self, device: Device) -> Callable[[], Done]:
        up, down = "H2D" in self.kind, "D2H" in self.kind
        streams = device.stream(), device.stream()
        there = device.allocate(self.nbytes), device.allocate(self.nbytes)
        plain = np.zeros(self.nbytes, np.uint8)
        pinned = None if self.kind == "H2D, pageable" else device.allocate_pinned(self.nbytes)
        landing = device.allocate_pinned(self.nbytes)
        if pinned is not None:
            pinned.array[:] = 0
        landing.array[:] = 0

        def step() -> Done:
            for _ in range(self.repeats):
                if up:
                    source = int(plain.ctypes.data) if pinned is None else pinned.address
                    streams[0].upload(there[0].address, source, self.nbytes)
                if down:
                    streams[1].download(landing.address, there[1].address, self.nbytes)
            for stream in streams:
                stream.synchronize()
            return Done(float((up + down) * self.repeats * self.nbytes))

        streams[1].fill(there[1].address, 0, self.nbytes)
        streams[1].synchronize()
        return step

    def _within(self, device: Device) -> Callable[[], Done]:
        stream, nbytes = device.stream(), BEYOND_CACHES * self.nbytes
        a, b = device.allocate(nbytes), device.allocate(nbytes)
        stream.fill(b.address, 0, nbytes)

        def step() -> Done:
            for _ in range(self.repeats):
                stream.copy(a.address, b.address, nbytes)
            stream.synchronize()
            return Done(2.0 * self.repeats * nbytes)

        return step

    def _arithmetic(self, device: Device) -> Callable[[], Done]:
        stream = device.stream()
        results = device.allocate(4 * self.blocks * THREADS)
        program = device.load(KernelSource("float32_rate.cu", (("CHAINS", CHAINS),), ("float32_rate",)))
        kernel = program.kernel("float32_rate")

        def step() -> Done:
            arguments = (results.address, np.int32(self.steps))
            stream.launch(kernel, (self.blocks, 1, 1), (THREADS, 1, 1), arguments)
            stream.synchronize()
            # The program is named here so that it lives as long as its kernel is launched.
            assert program is not None
            return Done(2.0 * CHAINS * self.steps * self.blocks * THREADS)

        return step


@cache
def _device() -> Device:
    from gpu.cupy_device import open_device  # late: CuPy is there only where a GPU is

    return open_device()
