"""The memory that a chain of the CPU finder works in: its state planes and its scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from finder.huge_pages import CACHE_LINE, Memory
from finder.kernel_types import (
    DIGITS,
    N_MARKS,
    RING_MARGIN,
    RING_ROWS,
    SLOTS,
    TILE_ROWS,
    Constants,
    Counters,
    Image,
    Kernel,
    Planes,
    Scratch,
)
from finder.pedestal import Pedestal

PAGE = 4096  # Bytes.
WORD = 64  # Bits.
# What a chain keeps of each pixel: X0, the sums, a mask's bit, how often it was blind, and the other counts with their
# marks and digits.
BYTES_A_PIXEL = 4 + 4 + 4 + 1 + 4 + N_MARKS * (4 + (SLOTS + DIGITS) / 8)


def image_of(shape: tuple[int, int], kernel: Kernel) -> Image:
    """The sizes of frames of `shape` (y, x)."""
    rows, cols = shape
    padded = _with_rows_apart(_rounded_up(cols, kernel.lanes))
    stride = _with_rows_apart(_rounded_up(padded + 2 * RING_MARGIN, CACHE_LINE // 4))
    tiles = -(-(rows + kernel.rows // 2) // TILE_ROWS)
    return Image(rows, cols, padded, stride, _rounded_up(padded, WORD) // WORD, tiles)


def memory_of(image: Image) -> Memory:
    """Memory for all of a chain's arrays."""
    return Memory(int(BYTES_A_PIXEL * image.tiles * TILE_ROWS * image.padded) + RING_ROWS * image.ring_stride * 16)


def planes_of(
    memory: Memory, image: Image, kernel: Kernel, pedestal: Pedestal, masked: NDArray[np.bool_] | None,
    constants: Constants,
) -> Planes:  # fmt: skip
    """The state to start from; masked pixels hold 0, as does the padding."""
    present = np.zeros((image.rows, image.padded), bool)
    present[:, : image.cols] = True if masked is None else ~masked
    second = pedestal.s2 if kernel.running else constants.ns2 * pedestal.trained_variance
    keep = present[:, : image.cols]
    return Planes(
        s1=_padded(memory, np.where(keep, pedestal.s1, np.float32(0)), image, kernel),
        s2=_padded(memory, np.where(keep, second, np.float32(0)), image, kernel),
        present=np.packbits(present, axis=1, bitorder="little").reshape(-1),
        row_is_complete=keep.all(axis=1).view(np.uint8),
    )


def x0_of(memory: Memory, image: Image, kernel: Kernel, pedestal: Pedestal, dtype: DTypeLike) -> NDArray[Any]:
    """X0 as a state plane, in the type of frames that can hold it."""
    return _padded(memory, pedestal.x0.astype(dtype), image, kernel)


def scratch_of(memory: Memory, image: Image, kernel: Kernel) -> Scratch:
    """Working memory, all zeros."""
    carried = (kernel.rows - 1) * image.padded
    ring = RING_ROWS * image.ring_stride
    return Scratch(
        values=memory.zeros(ring, np.float32),
        limits=memory.zeros(ring, np.float32),
        steps=memory.zeros(ring, np.float32),
        row_sums=memory.zeros(carried, np.float32),
        row_maxima=memory.zeros(carried, np.float32),
        positions=memory.zeros(TILE_ROWS * image.cols + WORD, np.int64),
        last_row=memory.zeros(4 * image.padded, np.uint8),
    )


def counters_of(memory: Memory, image: Image) -> Counters:
    """Counts of pixels, all zero."""
    planes = image.tiles * N_MARKS * image.tile_words
    return Counters(
        marks=memory.zeros(planes * SLOTS, np.uint64),
        digits=memory.zeros(planes * DIGITS, np.uint64),
        n_marked=np.zeros(1, np.int64),
        blind=memory.zeros(image.tiles * TILE_ROWS * image.padded, np.uint32),
    )


def unpadded(plane: NDArray[Any], image: Image, kernel: Kernel) -> NDArray[Any]:
    """The image's part of a state plane (y, x): a copy."""
    first = kernel.rows // 2
    return plane.reshape(-1, image.padded)[first : first + image.rows, : image.cols].copy()


def _padded(memory: Memory, pixels: NDArray[np.generic], image: Image, kernel: Kernel) -> NDArray[np.generic]:
    first = kernel.rows // 2
    plane = memory.zeros(image.tiles * TILE_ROWS * image.padded, pixels.dtype)
    plane.reshape(-1, image.padded)[first : first + image.rows, : image.cols] = pixels
    return plane


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _with_rows_apart(floats: int) -> int:
    """`floats`, or a little more: rows a page apart would compete for the same few places in the first-level cache."""
    return floats + CACHE_LINE // 4 if floats * 4 % (PAGE // 2) == 0 else floats
