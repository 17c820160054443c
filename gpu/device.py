"""What the CUDA finder needs of a device, and nothing more.

`gpu.cupy_device` is a real GPU; tests have an emulated device that runs the same kernels on the CPU. Memory is told by
address and bytes, as in CUDA. Nothing here keeps anything alive for anybody: whoever queues work on memory holds that
memory, its kernels and its graphs until the work is done. Memory that nobody holds any more is freed.

Work that is queued on a stream runs in the order of that stream, some time later, and in any order with that of other
streams and of the host, unless an event says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# An int is an address (64 bits); the others are passed as they are.
Argument = int | np.int32 | np.uint32 | np.float32
Extent = tuple[int, int, int]


class DeviceError(RuntimeError):
    """The device refused, or failed at, what it was asked to do."""


class OutOfDeviceMemoryError(DeviceError):
    """No room for what was to be allocated."""


class LostDeviceError(DeviceError):
    """The device, or this process's part of it, answers to nothing any more: only a new process may use it again."""


@dataclass(frozen=True)
class KernelSource:
    """What is compiled into a program.

    Attributes:
        file: name of a file in gpu/kernels.
        definitions: names and values for the preprocessor, such as ("WINDOW_ROWS", 3).
        kernels: names of the kernels in it, all `extern "C"`.
    """

    file: str
    definitions: tuple[tuple[str, int], ...]
    kernels: tuple[str, ...]


class FreeMemory(NamedTuple):
    """Bytes of device memory."""

    free: int
    total: int


class Memory(Protocol):
    """Device memory; what is in it at first is undefined.

    Attributes:
        address: where it begins, on the device; a multiple of 256.
        nbytes: its size.
    """

    @property
    def address(self) -> int:
        """Where it begins."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    def free(self) -> None:
        """Give it back; nothing that is queued may use it. A second call does nothing."""


class PinnedMemory(Protocol):
    """Page-locked host memory of exactly the size asked for; what is in it at first is undefined.

    Attributes:
        array: (nbytes) uint8, the memory itself. Whoever has it must not use it after `free`.
        address: where it begins, in this process; a multiple of a page.
        nbytes: its size.
    """

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
        """Give it back; nothing that is queued may use it. A second call does nothing."""


class PageLock(Protocol):
    """Somebody's array, page-locked in place. It keeps the array alive."""

    def release(self) -> None:
        """Unlock it; nothing that is queued may use it. A second call does nothing."""


class Event(Protocol):
    """A point in a stream's work. Before it is recorded for the first time it has happened."""

    def synchronize(self) -> None:
        """Wait, without the interpreter's lock, until everything before its latest `record` is done."""

    def seconds_since(self, earlier: Event) -> float:
        """Time from when `earlier` happened until this one did, in s, to about a microsecond.

        Both are timed, and have happened; on whatever streams, but `earlier` is the earlier one.

        Raises:
            DeviceError: one of them is not timed, or has not happened.
        """


class Kernel(Protocol):
    """A kernel of a loaded program, to be launched on streams of the same device."""


class Program(Protocol):
    """Compiled kernels, loaded onto the device."""

    def kernel(self, name: str) -> Kernel:
        """One of the source's kernels."""


class Graph(Protocol):
    """Work that was captured, with all its addresses, to be replayed as one. It keeps none of the memory alive."""


class Stream(Protocol):
    """A non-blocking stream: nothing waits for the default stream, nor does that wait for this one.

    Addresses are of device memory, except the host's side of `upload` and `download`: that is page-locked where the
    copy is to run beside other work, and it is the caller's to leave alone until the copy is done.
    """

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy from the host (`source`) to the device (`target`)."""

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy from the device (`source`) to the host (`target`)."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy within the device."""

    def fill(self, target: int, byte: int, nbytes: int) -> None:
        """Queue the setting of device memory to a byte."""

    def launch(
        self, kernel: Kernel, grid: Extent, block: Extent, arguments: Sequence[Argument], shared_nbytes: int = 0
    ) -> None:
        """Queue a kernel.

        Args:
            kernel: of this device.
            grid: blocks along x, y and z.
            block: threads of a block along x, y and z.
            arguments: in the order of the kernel's own, of exactly their types.
            shared_nbytes: shared memory that the kernel wants beyond what it declares.
        """

    def record(self, event: Event) -> None:
        """Queue an event; in a capture, a timed one, which then happens anew whenever the graph is replayed."""

    def wait(self, event: Event) -> None:
        """Let what is queued from now on wait for the event's latest `record` so far."""

    def synchronize(self) -> None:
        """Wait, without the interpreter's lock, until all that was queued is done.

        Raises:
            DeviceError: some of it has failed.
        """

    def capture(self, work: Callable[[], None]) -> Graph:
        """What `work` queues on this stream, as a graph; none of it runs.

        `work` allocates nothing, synchronizes nothing, and launches only kernels that were launched before. The
        capture is ended whatever happens in it.
        """

    def replay(self, graph: Graph) -> None:
        """Queue a graph, captured on any stream of the device."""


class Device(Protocol):
    """A device. It may be used by several threads at once; a stream, by one at a time.

    Attributes:
        name: what its maker calls it.
    """

    @property
    def name(self) -> str:
        """What its maker calls it."""

    def allocate(self, nbytes: int) -> Memory:
        """Device memory.

        Raises:
            OutOfDeviceMemoryError: there is not so much.
        """

    def allocate_pinned(self, nbytes: int) -> PinnedMemory:
        """Page-locked host memory, exactly so much.

        Raises:
            DeviceError: the host has not so much that it may lock.
        """

    def page_lock(self, array: NDArray[Any]) -> PageLock:
        """Page-lock an array where it is.

        Raises:
            ValueError: it is not contiguous.
            DeviceError: the host has not so much that it may lock, or it is locked already.
        """

    def stream(self) -> Stream:
        """A new stream."""

    def event(self, timed: bool = False) -> Event:
        """A new event, of which it can be asked when it happened if it is `timed`."""

    def load(self, source: KernelSource) -> Program:
        """Compile, or find compiled, and load; the same source again may give the same program."""

    def memory(self) -> FreeMemory:
        """Device memory that is free, and in all."""
