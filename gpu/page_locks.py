"""Arrays that a user has page-locked, and which frames lie within them."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from gpu.device import Device


class PageLocks:
    """The arrays that are page-locked now. It may be used by several threads at once."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._ranges: list[tuple[int, int]] = []

    def lock(self, array: NDArray[Any]) -> LockedArray:
        """Page-lock an array until the result is released, or its `with` block ends.

        Raises:
            ValueError: it is not contiguous.
            DeviceError: the host has not so much memory that it may lock, or it is locked already.
        """
        return LockedArray(self, self._device, array)

    def holds(self, array: NDArray[Any]) -> bool:
        """Whether a contiguous array lies within one that is page-locked."""
        first = int(array.ctypes.data)
        with self._lock:
            return any(begin <= first and first + array.nbytes <= end for begin, end in self._ranges)

    def add(self, begin: int, end: int) -> None:
        """Memory is locked from now on."""
        with self._lock:
            self._ranges.append((begin, end))

    def remove(self, begin: int, end: int) -> None:
        """It will be no more."""
        with self._lock:
            self._ranges.remove((begin, end))


class LockedArray:
    """An array that is page-locked until it is released. No `find` may be at work on it then."""

    def __init__(self, locks: PageLocks, device: Device, array: NDArray[Any]) -> None:
        self._lock = device.page_lock(array)
        self._locks, self._released = locks, False
        self._range = int(array.ctypes.data), int(array.ctypes.data) + array.nbytes
        locks.add(*self._range)

    def release(self) -> None:
        """Unlock it. A second call does nothing."""
        if not self._released:
            self._released = True
            self._locks.remove(*self._range)
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
