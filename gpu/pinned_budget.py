"""How much host memory a finder on a GPU page-locks: what the system can use for nothing else meanwhile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finder import FinderParameters, coordinate_dtype
from gpu.chain_memory import UPLOADED
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.settings import GpuSettings, chunk_of

SLOTS = 2


def pinned_bytes(
    parameters: FinderParameters, shape: tuple[int, int], dtype: np.dtype[Any], settings: GpuSettings
) -> int:
    """Bytes that a finder page-locks once all of its streams have been at work.

    Where frames hold more clusters than there is room for, the room grows, and this with it.

    Args:
        parameters: of the finder.
        shape: (y, x) of the frames.
        dtype: of the frames.
        settings: of the finder.
    """
    if not settings.pinned:
        return 0
    n_pixels = shape[0] * shape[1]
    itemsize = dtype.itemsize if parameters.common_mode is None else np.dtype(np.float32).itemsize
    frames = chunk_of(settings, parameters, n_pixels * itemsize).frames
    cluster = 4 * math.prod(parameters.cluster_size) + 4 + 2 * coordinate_dtype(shape).itemsize
    landing = cluster * max(1, math.ceil(settings.room * frames * n_pixels))
    slot = frames * n_pixels * itemsize + PARAMETER_BLOCK.itemsize + 4 * (1 + frames) + landing
    return settings.n_streams * (SLOTS * slot + UPLOADED * n_pixels)
