"""The kernels for one kind of window and frames, and the launches that take a chunk through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finder import FinderParameters, coordinate_dtype
from gpu.device import Argument, Device, KernelSource, Stream
from gpu.settings import TILE, Chunk

THREADS = 256
SCAN_THREADS = 1024
WARP = 32
N_MARKS = 4  # Bits a pixel and frame: centre, quiet, blind, in another gain.
LARGEST_NARROW_X0 = 2**30
FRAME_TYPES = {"float32": 0, "uint8": 1, "uint16": 2, "uint32": 4, "int16": -2, "int32": -4}


@dataclass(frozen=True)
class FrameKind:
    """How frames lie on the device.

    Args:
        dtype: a detector's integers; or float32: X − X0 and the common mode is subtracted, NaN where a pixel is absent.
        wide: X − X0 may need more than 32 bits, and X0 is int64 on the device; else int32.
    """

    dtype: str
    wide: bool

    @property
    def itemsize(self) -> int:
        """Bytes of a pixel."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class ChunkAddresses:
    """Where a chunk's buffers are on the device."""

    block: int
    frames: int
    values: int
    marks: int
    counts: int
    found: int


def kind_of(dtype: np.dtype[Any], largest_x0: int) -> FrameKind:
    """The kind of frames of a supported integer type, with X0 within ±`largest_x0`."""
    return FrameKind(dtype.newbyteorder("=").name, dtype.itemsize == 4 or largest_x0 > LARGEST_NARROW_X0)


def frame_words(shape: tuple[int, int]) -> int:
    """Words of one mark of a frame of `shape` (y, x): each row has whole ones."""
    rows, cols = shape
    return rows * -(-cols // WARP)


def groups_of(shape: tuple[int, int]) -> int:
    """Groups of words, a block each, in a frame of `shape` (y, x)."""
    return -(-frame_words(shape) // THREADS)


def sources(
    parameters: FinderParameters, shape: tuple[int, int], kind: FrameKind, frames_a_launch: int
) -> tuple[KernelSource, KernelSource]:
    """What is compiled: the search, and the collecting of what it finds."""
    rows, cols = parameters.cluster_size
    window = ("WINDOW_ROWS", rows), ("WINDOW_COLS", cols)
    search = (
        *window,
        ("FRAMES_A_LAUNCH", frames_a_launch),
        ("RUNNING", int(parameters.noise == "running")),
        ("FRAME_TYPE", FRAME_TYPES[kind.dtype]),
        ("WIDE", int(kind.wide)),
    )
    collect = (*window, ("COORDINATE_BYTES", coordinate_dtype(shape).itemsize))
    return (
        KernelSource("search.cu", search, ("search",)),
        KernelSource("collect.cu", collect, ("count_centres", "scan_counts", "gather_clusters", "count_activity")),
    )


class KernelSet:
    """Launches a chunk's kernels on frames of one shape and kind.

    Args:
        device: where.
        parameters: of the finder.
        shape: (y, x) of the frames.
        kind: of the frames.
        chunk: how many of them.
        present: address of (y, x) uint8 on the device, 0 where a pixel is masked.
    """

    def __init__(
        self,
        device: Device,
        parameters: FinderParameters,
        shape: tuple[int, int],
        kind: FrameKind,
        chunk: Chunk,
        present: int,
    ) -> None:
        search, collect = (device.load(source) for source in sources(parameters, shape, kind, chunk.frames_a_launch))
        self._programs = search, collect
        self._search = search.kernel("search")
        self._count, self._scan, self._gather, self._activity = map(
            collect.kernel, ("count_centres", "scan_counts", "gather_clusters", "count_activity")
        )
        self._chunk, self._present = chunk, present
        rows, cols = shape
        self._size = np.int32(rows), np.int32(cols)
        self._tiles = -(-cols // TILE), -(-rows // TILE), 1
        self._frame_words, self._groups = frame_words(shape), groups_of(shape)

    def search_and_collect(self, stream: Stream, at: ChunkAddresses, n_launches: int) -> None:
        """Queue all kernels of a chunk, with the first so many launches of the search, an even number."""
        chunk_frames = np.int32(self._chunk.frames)
        for launch in range(n_launches):
            arguments: tuple[Argument, ...] = at.block, at.frames, self._present, at.values, at.marks, *self._size
            stream.launch(self._search, self._tiles, (THREADS, 1, 1), (*arguments, chunk_frames, np.int32(launch)))
        grid = -(-self._frame_words // (THREADS // WARP)), 1, 1
        stream.launch(self._activity, grid, (THREADS, 1, 1), (at.block, at.marks, *self._size, chunk_frames))
        grid = self._groups, self._chunk.frames, 1
        stream.launch(self._count, grid, (THREADS, 1, 1), (at.block, at.marks, at.counts, *self._size))
        arguments = at.block, at.counts, at.found, np.int32(self._groups)
        stream.launch(self._scan, (1, 1, 1), (SCAN_THREADS, 1, 1), arguments)
        self.gather(stream, at)

    def gather(self, stream: Stream, at: ChunkAddresses) -> None:
        """Queue the gathering of clusters that were counted."""
        arguments = at.block, at.marks, at.values, at.counts, at.found, *self._size
        stream.launch(self._gather, (self._groups, self._chunk.frames, 1), (THREADS, 1, 1), arguments)
