"""The memory that a chain of the CPU finder works in: its state planes and its scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
    ScratchWithGain,
)
from finder.pedestal import Pedestal

ALIGNMENT = 64  # Bytes: a cache line, and the widest vector.
PAGE = 4096
WORD = 64


def image_of(shape: tuple[int, int], kernel: Kernel) -> Image:
    """The sizes of frames of `shape` (y, x)."""
    rows, cols = shape
    padded = _with_rows_apart(_rounded_up(cols, kernel.lanes))
    stride = _with_rows_apart(_rounded_up(padded + 2 * RING_MARGIN, ALIGNMENT // 4))
    tiles = -(-(rows + kernel.rows // 2) // TILE_ROWS)
    return Image(rows, cols, padded, stride, _rounded_up(padded, WORD) // WORD, tiles)


def planes_of(
    image: Image, kernel: Kernel, pedestal: Pedestal, masked: NDArray[np.bool_] | None, constants: Constants
) -> Planes:
    """The state to start from; masked pixels hold 0, as does the padding."""
    present = np.zeros((image.rows, image.padded), bool)
    present[:, : image.cols] = True if masked is None else ~masked
    second = pedestal.s2 if kernel.running else constants.ns2 * pedestal.trained_variance
    keep = present[:, : image.cols]
    return Planes(
        x0=_padded((pedestal.x0 & 0xFFFFFFFF).astype(np.uint32).view(np.int32), image, kernel),
        s1=_padded(np.where(keep, pedestal.s1, np.float32(0)), image, kernel),
        s2=_padded(np.where(keep, second, np.float32(0)), image, kernel),
        present=np.packbits(present, axis=1, bitorder="little").reshape(-1),
        row_is_complete=keep.all(axis=1).view(np.uint8),
    )


def scratch_of(image: Image, kernel: Kernel) -> Scratch | ScratchWithGain:
    """Working memory, all zeros."""
    carried = (kernel.rows - 1) * image.padded
    ring = RING_ROWS * image.ring_stride
    scratch = Scratch(
        values=_aligned(ring, np.float32),
        differences=_aligned(ring, np.float32),
        row_sums=_aligned(carried, np.float32),
        row_maxima=_aligned(carried, np.float32),
        positions=_aligned(TILE_ROWS * image.cols + WORD, np.int64),
        last_row=_aligned(4 * image.padded, np.uint8),
    )
    return ScratchWithGain(*scratch, in_gain=_aligned(ring // 8, np.uint8)) if kernel.gain_bits else scratch


def counters_of(image: Image) -> Counters:
    """Counts of pixels, all zero."""
    planes = image.tiles * N_MARKS * image.tile_words
    return Counters(
        marks=_aligned(planes * SLOTS, np.uint64),
        digits=_aligned(planes * DIGITS, np.uint64),
        n_marked=np.zeros(1, np.int64),
    )


def unpadded(plane: NDArray[Any], image: Image, kernel: Kernel) -> NDArray[Any]:
    """The image's part of a state plane (y, x): a copy."""
    first = kernel.rows // 2
    return plane.reshape(-1, image.padded)[first : first + image.rows, : image.cols].copy()


def _padded(pixels: NDArray[np.generic], image: Image, kernel: Kernel) -> NDArray[np.generic]:
    first = kernel.rows // 2
    plane = _aligned(image.tiles * TILE_ROWS * image.padded, pixels.dtype)
    plane.reshape(-1, image.padded)[first : first + image.rows, : image.cols] = pixels
    return plane


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _with_rows_apart(floats: int) -> int:
    """`floats`, or a little more: rows a page apart would compete for the same few places in the first-level cache."""
    return floats + ALIGNMENT // 4 if floats * 4 % (PAGE // 2) == 0 else floats


def _aligned(size: int, dtype: DTypeLike) -> NDArray[np.generic]:
    """Zeros that begin on a cache line."""
    itemsize = np.dtype(dtype).itemsize
    memory = np.zeros(size * itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    array: NDArray[np.generic] = memory[first : first + size * itemsize].view(dtype)
    return array
