"""How much memory the CUDA finder takes, before it takes any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from finder import FinderParameters, coordinate_dtype
from gpu.chain_memory import NBYTES_A_PIXEL, UPLOADED
from gpu.kernel_set import N_MARKS, FrameKind, frame_words, groups_of, kind_of
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.settings import Chunk, GpuSettings, chunk_of


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


def slot_sizes(
    parameters: FinderParameters, shape: tuple[int, int], kind: FrameKind, chunk: Chunk, settings: GpuSettings
) -> SlotSizes:
    """The sizes of a slot's buffers for frames of `shape` (y, x)."""
    n_pixels = chunk.frames * shape[0] * shape[1]
    return SlotSizes(
        block=PARAMETER_BLOCK.itemsize,
        frames=n_pixels * kind.itemsize,
        values=4 * n_pixels,
        marks=4 * N_MARKS * chunk.frames * frame_words(shape),
        counts=4 * chunk.frames * groups_of(shape),
        found=4 * (1 + chunk.frames),
        cluster=4 * math.prod(parameters.cluster_size) + 4 + 2 * coordinate_dtype(shape).itemsize,
        capacity=max(1, math.ceil(settings.room * n_pixels)),
    )


def finder_memory(
    parameters: FinderParameters,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    settings: GpuSettings | None = None,
    largest_x0: int = 0,
) -> FinderMemory:
    """The memory of a finder for frames of one type, with as many chains as it has streams.

    Args:
        parameters: of the finder.
        shape: (y, x) of the frames.
        dtype: of the frames, one that is supported.
        settings: of the finder.
        largest_x0: X0 of the pedestal is within ±this.
    """
    how = settings or GpuSettings()
    kind = FrameKind("float32", wide=False) if parameters.common_mode else kind_of(dtype, largest_x0)
    n_pixels = shape[0] * shape[1]
    slot = slot_sizes(parameters, shape, kind, chunk_of(how, parameters, n_pixels * kind.itemsize), how)
    return FinderMemory(
        pinned=how.n_streams * (2 * slot.pinned + UPLOADED * n_pixels),
        device=how.n_streams * (2 * slot.device + NBYTES_A_PIXEL * n_pixels) + n_pixels,
    )
