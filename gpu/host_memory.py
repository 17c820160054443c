"""Host memory that a device copies from and to: page-locked, or not where that is to be measured."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.device import Device


class HostMemory(Protocol):
    """What `PinnedMemory` and `PageableMemory` have in common."""

    @property
    def array(self) -> NDArray[np.uint8]:
        """(nbytes) uint8."""

    @property
    def address(self) -> int:
        """Where it begins."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    def free(self) -> None:
        """Give it back."""


class PageableMemory:
    """Plain memory: the driver stages its copies once more, and nothing runs beside them."""

    def __init__(self, nbytes: int) -> None:
        self.array = np.empty(nbytes, np.uint8)
        self.address = int(self.array.ctypes.data)
        self.nbytes = nbytes

    def free(self) -> None:
        """Nothing: it goes with its array."""


def host_memory(device: Device, nbytes: int, pinned: bool) -> HostMemory:
    """Host memory of exactly `nbytes`.

    Raises:
        DeviceError: the host has not so much that it may lock.
    """
    return device.allocate_pinned(nbytes) if pinned else PageableMemory(nbytes)
