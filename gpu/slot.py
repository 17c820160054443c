"""A slot: the buffers of one chunk. A stream context has two, so that one is filled while the other is worked on."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder import coordinate_dtype
from gpu.chunk_plan import ChunkPlan
from gpu.device import Device, Graph
from gpu.host_memory import HostMemory, host_memory
from gpu.kernel_set import ChunkAddresses
from gpu.memory_plan import slot_sizes
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.stage_clock import Span

GROWTH = 1.25


class Slot:
    """Buffers on the device and on the host, at addresses that stay; only the clusters' grow.

    Args:
        device: where.
        plan: of the chunk.

    Attributes:
        frames: (frame, y, x), where frames are staged.
        found: (1 + frame) uint32, as the device counted: clusters of the chunk, and of each frame.
        done: recorded behind a chunk's work.
        uploading, kernels, landing: the stages of that work, recorded at their borders.
        graphs: what was captured, with and without the copying of staged frames.
    """

    def __init__(self, device: Device, plan: ChunkPlan) -> None:
        pinned = plan.settings.pinned
        self._device, self._pinned = device, pinned
        self._coordinate = coordinate_dtype(plan.shape)
        sizes = slot_sizes(plan)
        self.chunk_nbytes, self.cluster_nbytes, self.capacity = sizes.frames, sizes.cluster, sizes.capacity
        self._staging = host_memory(device, sizes.frames, pinned)
        self._block = host_memory(device, sizes.block, pinned)
        self._found = host_memory(device, sizes.found, pinned)
        self.frames: NDArray[Any] = self._staging.array.view(plan.kind.dtype).reshape(plan.chunk.frames, *plan.shape)
        self._described = self._block.array.view(PARAMETER_BLOCK)
        # Views: what changes from chunk to chunk is written often.
        self._n_frames, self._capacity, self._where = (
            self._described[name] for name in ("n_frames", "capacity", "clusters")
        )
        self.found = self._found.array.view(np.uint32)
        self.staging_address, self.block_address = self._staging.address, self._block.address
        self.found_address, self.found_nbytes = self._found.address, sizes.found
        names = [field.name for field in fields(ChunkAddresses)]
        self._buffers = {name: device.allocate(getattr(sizes, name)) for name in names}
        self.at = ChunkAddresses(**{name: memory.address for name, memory in self._buffers.items()})
        self._clusters = device.allocate(sizes.clusters)
        self._landing: HostMemory = host_memory(device, sizes.clusters, pinned)
        self.done = device.event()
        self.uploading, self.kernels, self.landing = (Span(device) for _ in range(3))
        self.graphs: dict[bool, Graph] = {}

    @property
    def clusters_address(self) -> int:
        """Where the device puts the clusters."""
        return self._clusters.address

    @property
    def landing_address(self) -> int:
        """Where the host gets them."""
        return self._landing.address

    def describe(self, description: NDArray[Any], n_frames: int) -> None:
        """Write what the next chunk is to the block that is copied to the device."""
        self._described[:] = description
        self._n_frames[0] = n_frames
        self.describe_room()

    def describe_room(self) -> None:
        """Write where clusters go, and how many."""
        self._capacity[0], self._where[0] = self.capacity, self._clusters.address

    def grow(self, n_clusters: int) -> None:
        """Make room for so many clusters; what was there is lost, and nothing may be at work on it."""
        capacity, self.capacity = int(n_clusters * GROWTH), 0
        self._clusters.free()
        self._landing.free()
        self._clusters = self._device.allocate(capacity * self.cluster_nbytes)
        self._landing = host_memory(self._device, capacity * self.cluster_nbytes, self._pinned)
        self.capacity = capacity

    def landed_clusters(self, n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Signal, frame, y and x of `n` clusters that have landed: views."""
        array, end = self._landing.array, self.cluster_nbytes * n
        x, y = end - n * self._coordinate.itemsize, end - 2 * n * self._coordinate.itemsize
        frame = y - 4 * n
        return (
            array[:frame].view(np.float32),
            array[frame:y].view(np.uint32),
            array[y:x].view(self._coordinate),
            array[x:end].view(self._coordinate),
        )
