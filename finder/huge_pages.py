"""One piece of memory for many arrays, in huge pages where the system has them.

A chain's arrays are walked through once a frame. In pages of 4 KiB each walk meets hundreds of page borders, at which
the processor's own prefetching stops, and the first walk pays a page fault for each.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

HUGE_PAGE = 2 << 20  # Bytes. Where they are larger the system takes what fits.
CACHE_LINE = 64  # Bytes; also the widest vector.
# In larger pieces each array fills huge pages of its own, for which NumPy asks; and a process that keeps what it has
# freed, as workers do, pays for their first touch but once.
LARGEST_PIECE = 32 << 20


class Memory:
    """Hands out arrays of zeros from one piece of memory, which lives as long as any of them.

    Args:
        nbytes: about how much will be asked for. What is asked for beyond comes from elsewhere.
    """

    def __init__(self, nbytes: int) -> None:
        self._rest = _huge_pages(nbytes) if HUGE_PAGE <= nbytes <= LARGEST_PIECE else np.empty(0, np.uint8)

    def zeros(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """`size` zeros that begin on a cache line."""
        nbytes = size * np.dtype(dtype).itemsize
        padded = -(-nbytes // CACHE_LINE) * CACHE_LINE
        if padded <= len(self._rest):
            memory, self._rest = self._rest[:padded], self._rest[padded:]
        else:
            memory = _on_boundary(np.zeros(padded + CACHE_LINE, np.uint8), CACHE_LINE)
        array: NDArray[Any] = memory[:nbytes].view(dtype)
        return array


def _huge_pages(nbytes: int) -> NDArray[np.uint8]:
    """Zeros that begin where a huge page can."""
    size = -(-nbytes // HUGE_PAGE) * HUGE_PAGE
    mapped = mmap.mmap(-1, size + HUGE_PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A kernel that was built without: it is memory all the same.
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return _on_boundary(np.frombuffer(mapped, np.uint8), HUGE_PAGE)[:size]


def _on_boundary(memory: NDArray[np.uint8], boundary: int) -> NDArray[np.uint8]:
    return memory[-memory.ctypes.data % boundary :]
