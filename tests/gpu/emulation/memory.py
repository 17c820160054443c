"""Memory of the emulated device, poisoned when it is fresh, freed or overrun."""

from __future__ import annotations

import ctypes

import numpy as np

from gpu.device import DeviceError, OutOfDeviceMemoryError

POISON = 0xC7  # A float32 of it is -1e5, an index of it far out of any bounds.
ALIGNMENT = 4096
GUARD = 4096


class EmulatedMemory:
    """Device memory or pinned memory: host memory between two guards."""

    def __init__(self, pool: MemoryPool, nbytes: int) -> None:
        # Never given back to the system: what uses it after `free` finds poison, and not somebody else's data.
        self._all = np.full(nbytes + 2 * GUARD + ALIGNMENT, POISON, np.uint8)
        self._first = GUARD + -(self._all.ctypes.data + GUARD) % ALIGNMENT
        self._pool = pool
        self._freed = False
        self.nbytes = nbytes
        self.address = self._all.ctypes.data + self._first
        self.array = self._all[self._first : self._first + nbytes]

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            self._pool.freed(self)

    def __del__(self) -> None:
        self.free()

    def poison(self) -> None:
        self.array[:] = POISON

    def whole(self) -> bool:
        """Whether nobody has written beyond the ends."""
        before, after = self._all[: self._first], self._all[self._first + self.nbytes :]
        return bool((before == POISON).all() and (after == POISON).all())


class MemoryPool:
    """Keeps account of memory.

    Args:
        total: Bytes that there are.
    """

    def __init__(self, total: int) -> None:
        self.total, self.used, self.most_used = total, 0, 0
        self._live: dict[int, int] = {}
        self._graveyard: list[np.ndarray] = []
        self.overruns = 0

    def allocate(self, nbytes: int) -> EmulatedMemory:
        if self.used + nbytes > self.total:
            raise OutOfDeviceMemoryError(f"{nbytes} B are asked for, {self.total - self.used} B are free")
        memory = EmulatedMemory(self, nbytes)
        self._live[memory.address] = nbytes
        self.used += nbytes
        self.most_used = max(self.used, self.most_used)
        return memory

    def freed(self, memory: EmulatedMemory) -> None:
        self.overruns += not memory.whole()
        memory.poison()
        self.used -= memory.nbytes
        del self._live[memory.address]
        self._graveyard.append(memory._all)

    def require(self, address: int, nbytes: int) -> None:
        """Raises: DeviceError: the range is not within live memory."""
        if not any(first <= address and address + nbytes <= first + size for first, size in list(self._live.items())):
            raise DeviceError(f"{nbytes} B at {address:#x} are not the device's, or not any more")


def move(target: int, source: int, nbytes: int) -> None:
    """Copy memory."""
    ctypes.memmove(target, source, nbytes)
