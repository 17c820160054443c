"""The kernels for one kind of window and frames, and the launches that take a chunk through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from finder import coordinate_dtype
from gpu.chunk_plan import THREADS, WARP, ChunkPlan
from gpu.device import Argument, Device, KernelSource, Stream
from gpu.settings import TILE

SCAN_THREADS = 1024
N_MARKS = 4  # Bits a pixel and frame: centre, quiet, blind, in another gain.
FRAME_TYPES = {"float32": 0, "uint8": 1, "uint16": 2, "uint32": 4, "int16": -2, "int32": -4}


@dataclass(frozen=True)
class ChunkAddresses:
    """Where a chunk's buffers are on the device."""

    block: int
    frames: int
    values: int
    marks: int
    counts: int
    found: int


def sources(plan: ChunkPlan) -> tuple[KernelSource, ...]:
    """What is compiled: the search, the collecting of what it finds, and the counting of it where that is wanted."""
    parameters = plan.parameters
    rows, cols = parameters.cluster_size
    window = ("WINDOW_ROWS", rows), ("WINDOW_COLS", cols)
    search = (
        *window,
        ("FRAMES_A_LAUNCH", plan.chunk.frames_a_launch),
        ("RUNNING", int(parameters.noise == "running")),
        ("FRAME_TYPE", FRAME_TYPES[plan.kind.dtype]),
        ("WIDE", int(plan.kind.wide)),
    )
    collect = (*window, ("COORDINATE_BYTES", coordinate_dtype(plan.shape).itemsize))
    return (
        KernelSource("search.cu", search, ("search",)),
        KernelSource("collect.cu", collect, ("count_centres", "scan_counts", "gather_clusters", "count_activity")),
        *([KernelSource("products.cu", window, ("count_products",))] if plan.products.names else []),
    )


class KernelSet:
    """Launches a chunk's kernels.

    Args:
        device: where.
        plan: of the chunks.
        present: address of (y, x) uint8 on the device, 0 where a pixel is masked.
    """

    def __init__(self, device: Device, plan: ChunkPlan, present: int) -> None:
        self._programs = search, collect, *others = [device.load(source) for source in sources(plan)]
        self._search = search.kernel("search")
        self._count, self._scan, self._gather, self._activity = map(
            collect.kernel, ("count_centres", "scan_counts", "gather_clusters", "count_activity")
        )
        self._products = others[0].kernel("count_products") if others else None
        self._plan, self._present = plan, present
        rows, cols = plan.shape
        self._size = np.int32(rows), np.int32(cols)
        self._tiles = -(-cols // TILE), -(-rows // TILE), 1
        self._groups = plan.groups, plan.chunk.frames, 1

    def search_and_collect(self, stream: Stream, at: ChunkAddresses, n_launches: int) -> None:
        """Queue all kernels of a chunk, with the first so many launches of the search, an even number."""
        block, chunk_frames = (THREADS, 1, 1), np.int32(self._plan.chunk.frames)
        for launch in range(n_launches):
            arguments: tuple[Argument, ...] = at.block, at.frames, self._present, at.values, at.marks, *self._size
            stream.launch(self._search, self._tiles, block, (*arguments, chunk_frames, np.int32(launch)))
        grid = -(-self._plan.frame_words // (THREADS // WARP)), 1, 1
        stream.launch(self._activity, grid, block, (at.block, at.marks, *self._size, chunk_frames))
        stream.launch(self._count, self._groups, block, (at.block, at.marks, at.counts, *self._size))
        arguments = at.block, at.counts, at.found, np.int32(self._plan.groups)
        stream.launch(self._scan, (1, 1, 1), (SCAN_THREADS, 1, 1), arguments)
        if self._products is not None:
            # Apart from the gathering, which comes again where there was no room: nothing is counted twice.
            stream.launch(self._products, self._groups, block, (at.block, at.marks, at.values, *self._size))
        self.gather(stream, at)

    def gather(self, stream: Stream, at: ChunkAddresses) -> None:
        """Queue the gathering of clusters that were counted."""
        arguments = at.block, at.marks, at.values, at.counts, at.found, *self._size
        stream.launch(self._gather, self._groups, (THREADS, 1, 1), arguments)
