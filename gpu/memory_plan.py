"""How much memory the CUDA finder takes, before it takes any."""

from __future__ import annotations

import math
from dataclasses import dataclass

from finder import coordinate_dtype
from gpu.chain_memory import NBYTES_A_PIXEL, UPLOADED
from gpu.chunk_plan import ChunkPlan
from gpu.kernel_set import N_MARKS
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.product_memory import ProductMemory

CUDA_CONTEXT_BYTES = 500_000_000
"""Memory of the host that a process takes for a CUDA context: an assumption, for there was no GPU to measure it on.

It is what others see: 0.3 to 0.6 GB of resident memory after the first call, by driver and by libraries.
"""


@dataclass(frozen=True)
class SlotSizes:
    """Bytes of a slot's buffers, each on the device; those of frames, block, found and clusters on the host too.

    Attributes:
        cluster: bytes of one cluster: its signal, frame, y and x.
        capacity: clusters that there is room for at first.
    """

    block: int
    frames: int
    values: int
    marks: int
    counts: int
    found: int
    cluster: int
    capacity: int

    @property
    def clusters(self) -> int:
        """Bytes of all clusters that there is room for."""
        return self.cluster * self.capacity

    @property
    def pinned(self) -> int:
        """Bytes on the host."""
        return self.block + self.frames + self.found + self.clusters

    @property
    def device(self) -> int:
        """Bytes on the device."""
        return self.pinned + self.values + self.marks + self.counts


@dataclass(frozen=True)
class FinderMemory:
    """Bytes that a finder takes once all its streams work, until a chunk has more clusters than there is room for.

    Attributes:
        pinned: page-locked memory of the host.
        device: memory of the GPU.
    """

    pinned: int
    device: int


def slot_sizes(plan: ChunkPlan) -> SlotSizes:
    """The sizes of a slot's buffers."""
    frames = plan.chunk.frames
    n_pixels = frames * plan.n_pixels
    return SlotSizes(
        block=PARAMETER_BLOCK.itemsize,
        frames=n_pixels * plan.kind.itemsize,
        values=4 * n_pixels,
        marks=4 * N_MARKS * frames * plan.frame_words,
        counts=4 * frames * plan.groups,
        found=4 * (1 + frames),
        cluster=4 * math.prod(plan.parameters.cluster_size) + 4 + 2 * coordinate_dtype(plan.shape).itemsize,
        capacity=max(1, math.ceil(plan.settings.room * n_pixels)),
    )


def finder_memory(plan: ChunkPlan) -> FinderMemory:
    """The memory of a finder for frames of one kind, with as many chains as it has streams."""
    slot, n_pixels = slot_sizes(plan), plan.n_pixels
    chain = NBYTES_A_PIXEL * n_pixels + ProductMemory(plan.products).nbytes
    return FinderMemory(
        pinned=plan.settings.n_streams * (2 * slot.pinned + UPLOADED * n_pixels),
        device=plan.settings.n_streams * (2 * slot.device + chain) + n_pixels,
    )
