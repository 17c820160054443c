"""Page-locked memory for frames, into which they are decoded and from which the GPU takes them as they lie there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.finder import CudaFinder


class PinnedFrames:
    """Room for frames that a finder takes without copying them first.

    Args:
        finder: the finder.
        shape: (frame, y, x).
        dtype: of the frames, in native byte order.

    Attributes:
        array: (frame, y, x); not to be used after `release`.

    Raises:
        DeviceError: the host has not so much memory that it may lock.
    """

    def __init__(self, finder: CudaFinder, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        nbytes = math.prod(shape) * dtype.itemsize
        self._locks = finder.page_locks
        self._memory = finder.device.allocate_pinned(nbytes)
        self._range = self._memory.address, self._memory.address + nbytes
        self.array: NDArray[Any] = self._memory.array.view(dtype).reshape(shape)
        self._locks.add(*self._range)

    def release(self) -> None:
        """Give the memory back; no `find` may be at work on it."""
        self._locks.remove(*self._range)
        self.array = np.empty((0, 0, 0), self.array.dtype)
        self._memory.free()
