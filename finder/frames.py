"""What counts as frames: the integer types, the shape, and native blocks of whatever was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SUPPORTED_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32")
BLOCK_NBYTES = 4 << 20

Frames = NDArray[np.integer[Any]]


def checked_frames(frames: ArrayLike, shape: tuple[int, int] | None = None, what: str = "frames") -> Frames:
    """`frames` as an array (frame, y, x), without a copy where it is one already.

    Args:
        frames: integers in any byte order; read-only, strided and memory-mapped arrays are welcome.
        shape: (y, x) the frames must have, if given.
        what: what the error messages call them.

    Raises:
        TypeError: not one of the supported integer types.
        ValueError: not three-dimensional, or not of `shape`.
    """
    array: NDArray[Any] = np.asarray(frames)
    if array.dtype.kind == "f":
        raise TypeError(
            f"{what} are {array.dtype}; the finder's arithmetic is exact for integers only: "
            f"give the raw ADU as one of {', '.join(SUPPORTED_DTYPES)}"
        )
    if array.dtype.newbyteorder("=").name not in SUPPORTED_DTYPES:
        raise TypeError(f"{what} are {array.dtype}; supported are {', '.join(SUPPORTED_DTYPES)}")
    if array.ndim != 3:
        raise ValueError(f"{what} have the shape {array.shape}; expected three axes (frame, y, x)")
    if 0 in array.shape[1:]:
        raise ValueError(f"{what} have the shape {array.shape}; a frame needs at least one pixel")
    if shape is not None and array.shape[1:] != shape:
        raise ValueError(f"{what} have the shape (y, x) = {array.shape[1:]}; expected {shape}")
    return array


def native_blocks(frames: Frames, max_nbytes: int = BLOCK_NBYTES) -> Iterator[Frames]:
    """The frames in order, C-contiguous and in native byte order.

    Frames that are so already come as one block, without a copy; others are converted about `max_nbytes` at a time, at
    least one frame.
    """
    if frames.dtype.isnative and frames.flags.c_contiguous:
        yield frames
        return
    frame_nbytes = frames.dtype.itemsize * frames.shape[1] * frames.shape[2]
    step = max(1, max_nbytes // frame_nbytes)
    native = frames.dtype.newbyteorder("=")
    for first in range(0, len(frames), step):
        yield np.ascontiguousarray(frames[first : first + step], dtype=native)
