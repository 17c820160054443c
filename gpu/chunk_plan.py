"""What is worked on together: frames of which shape and kind, how many at a time, and what is wanted of them.

Kernels, buffers, streams and the memory that they take all follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from finder import FinderParameters
from finder.products import ProductOptions
from gpu.settings import Chunk, GpuSettings, chunk_of

THREADS = 256
WARP = 32
LARGEST_NARROW_X0 = 2**30


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


CORRECTED = FrameKind("float32", wide=False)
"""Frames whose common mode was subtracted on the host."""


@dataclass(frozen=True)
class ChunkPlan:
    """What is worked on together.

    Args:
        parameters: of the finder.
        shape: (y, x) of the frames.
        kind: of the frames.
        settings: of the finder.
        products: what the device counts of the clusters.
    """

    parameters: FinderParameters
    shape: tuple[int, int]
    kind: FrameKind
    settings: GpuSettings = field(default_factory=GpuSettings)
    products: ProductOptions = field(default_factory=ProductOptions)

    @cached_property
    def chunk(self) -> Chunk:
        """How many frames.

        Raises:
            ValueError: the settings don't fit the window.
        """
        return chunk_of(self.settings, self.parameters, self.frame_nbytes)

    @property
    def n_pixels(self) -> int:
        """Pixels of a frame."""
        return self.shape[0] * self.shape[1]

    @property
    def frame_nbytes(self) -> int:
        """Bytes of a frame on the device."""
        return self.n_pixels * self.kind.itemsize

    @property
    def frame_words(self) -> int:
        """Words of one mark of a frame: each row has whole ones."""
        rows, cols = self.shape
        return rows * -(-cols // WARP)

    @property
    def groups(self) -> int:
        """Groups of words, a block each, in a frame."""
        return -(-self.frame_words // THREADS)


def kind_of(dtype: np.dtype[Any], largest_x0: int) -> FrameKind:
    """The kind of frames of a supported integer type, with X0 within ±`largest_x0`."""
    return FrameKind(dtype.newbyteorder("=").name, dtype.itemsize == 4 or largest_x0 > LARGEST_NARROW_X0)


def kind_for(parameters: FinderParameters, dtype: np.dtype[Any], largest_x0: int = 0) -> FrameKind:
    """The kind in which frames of a supported integer type reach the device: with a common mode, corrected."""
    return CORRECTED if parameters.common_mode is not None else kind_of(dtype, largest_x0)
