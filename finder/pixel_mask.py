"""Which pixels are absent, from a detector's pixel mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.pixel_bits import MASKED_BITS


def masked_pixels(pixel_mask: ArrayLike, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Where a pixel is masked, (y, x) bool.

    Args:
        pixel_mask: (y, x) integers, NeXus bits; or bool, True where masked.
        shape: (y, x) of the frames.

    Raises:
        ValueError: another shape, or neither integers nor bool.
    """
    mask: NDArray[Any] = np.asarray(pixel_mask)
    if mask.shape != shape:
        raise ValueError(f"the pixel mask has the shape {mask.shape}; the frames have (y, x) = {shape}")
    if mask.dtype.kind == "b":
        return mask.copy()
    if mask.dtype.kind not in "iu":
        raise ValueError(f"the pixel mask is {mask.dtype}; it must be integer (NeXus bits) or bool")
    # As 64 bits first: NumPy does not widen a mask of 8 bits by itself, and refuses 0xFFFF beside it.
    masked: NDArray[np.bool_] = (mask.astype(np.int64) & MASKED_BITS) != 0
    return masked
