"""A slot: the buffers of one chunk. A stream context has two, so that one is filled while the other is worked on."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder import FinderParameters, coordinate_dtype
from gpu.device import Device, Graph
from gpu.host_memory import HostMemory, host_memory
from gpu.kernel_set import N_MARKS, ChunkAddresses, FrameKind, KernelSet
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.settings import Chunk, GpuSettings

GROWTH = 1.25


class Slot:
    """Buffers on the device and on the host, at addresses that stay; only the clusters' grow.

    Args:
        device: where.
        parameters: of the finder.
        shape: (y, x) of the frames.
        kind: of the frames.
        chunk: how many frames.
        kernels: that work on them.
        settings: of the finder.

    Attributes:
        frames: (frame, y, x), where frames are staged.
        block: what the next chunk is, to be copied to the device.
        found: (1 + frame) uint32, as the device counted: clusters of the chunk, and of each frame.
        done: recorded behind a chunk's work.
        landed: recorded behind the copying of its clusters.
        graphs: what was captured, with and without the copying of staged frames.
    """

    def __init__(
        self,
        device: Device,
        parameters: FinderParameters,
        shape: tuple[int, int],
        kind: FrameKind,
        chunk: Chunk,
        kernels: KernelSet,
        settings: GpuSettings,
    ) -> None:
        self._device, self._pinned = device, settings.pinned
        n_pixels = shape[0] * shape[1]
        self.chunk_nbytes = chunk.frames * n_pixels * kind.itemsize
        found_nbytes = 4 * (1 + chunk.frames)
        self._staging = host_memory(device, self.chunk_nbytes, settings.pinned)
        self._block = host_memory(device, PARAMETER_BLOCK.itemsize, settings.pinned)
        self._found = host_memory(device, found_nbytes, settings.pinned)
        self.frames: NDArray[Any] = self._staging.array.view(kind.dtype).reshape(chunk.frames, *shape)
        self.block = self._block.array.view(PARAMETER_BLOCK)[0:1]
        self.found = self._found.array.view(np.uint32)
        self.staging_address, self.block_address = self._staging.address, self._block.address
        self.found_address, self.found_nbytes = self._found.address, found_nbytes
        sizes = {
            "block": PARAMETER_BLOCK.itemsize,
            "frames": self.chunk_nbytes,
            "values": 4 * chunk.frames * n_pixels,
            "marks": 4 * N_MARKS * chunk.frames * kernels.frame_words,
            "counts": 4 * chunk.frames * kernels.groups,
            "found": found_nbytes,
        }
        self._buffers = {name: device.allocate(nbytes) for name, nbytes in sizes.items()}
        self.at = ChunkAddresses(**{name: memory.address for name, memory in self._buffers.items()})
        self._window = parameters.cluster_size
        self._coordinate = coordinate_dtype(shape)
        self.cluster_nbytes = 4 * math.prod(self._window) + 4 + 2 * self._coordinate.itemsize
        self.capacity = max(1, math.ceil(settings.room * chunk.frames * n_pixels))
        self._clusters = device.allocate(self.capacity * self.cluster_nbytes)
        self._landing: HostMemory = host_memory(device, self.capacity * self.cluster_nbytes, settings.pinned)
        self.done, self.landed = device.event(), device.event()
        self.graphs: dict[bool, Graph] = {}

    @property
    def clusters_address(self) -> int:
        """Where the device puts the clusters."""
        return self._clusters.address

    @property
    def landing_address(self) -> int:
        """Where the host gets them."""
        return self._landing.address

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
        width, end = math.prod(self._window), self._coordinate.itemsize
        edges = np.cumsum([0, 4 * width * n, 4 * n, end * n, end * n])
        parts = [self._landing.array[a:b] for a, b in itertools.pairwise(edges)]
        return (
            parts[0].view(np.float32),
            parts[1].view(np.uint32),
            parts[2].view(self._coordinate),
            parts[3].view(self._coordinate),
        )
