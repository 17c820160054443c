"""A device that runs CUDA kernels on the CPU and keeps the order of streams and events, and no other.

Queued work runs at random, some time between being queued and being waited for, so that what is not ordered shows by a
wrong answer sooner or later: try a few seeds. One synchronisation can be left out on purpose, to see that it is needed.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from emulation.compiling import CpuCompiler
from emulation.memory import EmulatedMemory, MemoryPool, move
from emulation.scheduler import Operation, Scheduler
from numpy.typing import NDArray

from gpu.device import Argument, DeviceError, Extent, FreeMemory, KernelSource

FIXED_ORDERS = 3  # Forwards, backwards, at random.


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_ulonglong),
    )


class EmulatedDevice:
    """The device.

    Args:
        compiler: Of the kernels.
        seed: Of everything that is at random.
        total: Bytes of device memory.
        left_out: A place in the source, "file.py:function:line", whose synchronisation does nothing.

    Attributes:
        synchronisations: Places that have synchronised.
        forgives: Whether an event that has not happened may be asked for its time: what is wrong then is to show in
            answers.
    """

    def __init__(self, compiler: CpuCompiler, seed: int = 0, total: int = 1 << 30, left_out: str | None = None) -> None:
        self.name = "emulated device"
        self.compiler = compiler
        self.scheduler = Scheduler(seed)
        self.pool, self.pinned = MemoryPool(total), MemoryPool(1 << 40)
        self.synchronisations: set[str] = set()
        self.graphs_replayed = 0
        self.forgives = False
        self._left_out = left_out
        self._capturing = threading.local()

    def allocate(self, nbytes: int) -> EmulatedMemory:
        return self._allocated(self.pool, nbytes)

    def allocate_pinned(self, nbytes: int) -> EmulatedMemory:
        return self._allocated(self.pinned, nbytes)

    def page_lock(self, array: NDArray[Any]) -> EmulatedPageLock:
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise ValueError("an array that is page-locked has to be contiguous")
        return EmulatedPageLock(array)

    def stream(self) -> EmulatedStream:
        return EmulatedStream(self)

    def event(self, timed: bool = False) -> EmulatedEvent:
        return EmulatedEvent(self, timed)

    def load(self, source: KernelSource) -> EmulatedProgram:
        self.require_no_capture("loads a program")
        return EmulatedProgram(self.compiler.library(source))

    def memory(self) -> FreeMemory:
        return FreeMemory(self.pool.total - self.pool.used, self.pool.total)

    def _allocated(self, pool: MemoryPool, nbytes: int) -> EmulatedMemory:
        self.require_no_capture("allocates")
        with self.scheduler.lock:
            return pool.allocate(nbytes)

    def require_no_capture(self, what: str) -> None:
        if self.captured is not None:
            raise DeviceError(f"a capture {what}")

    @property
    def captured(self) -> list[Callable[[], None]] | None:
        """What this thread captures, if it does."""
        return getattr(self._capturing, "operations", None)

    @captured.setter
    def captured(self, operations: list[Callable[[], None]] | None) -> None:
        self._capturing.operations = operations

    def leaves_out(self) -> bool:
        """Whether the synchronisation that the caller of our caller asks for is the one that is left out."""
        frame = sys._getframe(2)
        place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_name}:{frame.f_lineno}"
        self.synchronisations.add(place)
        return place == self._left_out


class EmulatedPageLock:
    def __init__(self, array: NDArray[Any]) -> None:
        self._array: NDArray[Any] | None = array

    def release(self) -> None:
        self._array = None


class EmulatedEvent:
    """Counts how often it was recorded, and how often that has happened; and notes when, if it is timed."""

    def __init__(self, device: EmulatedDevice, timed: bool) -> None:
        self._device = device
        self.timed = timed
        self.recorded = self.happened = 0
        self.at = 0.0

    def happens(self, number: int) -> None:
        self.happened = max(self.happened, number)
        self.at = time.perf_counter()

    def seconds_since(self, earlier: EmulatedEvent) -> float:
        for event in (self, earlier):
            if not event.timed:
                raise DeviceError("an event is asked for a time, and has none")
            if event.recorded == 0 or event.happened < event.recorded:
                if self._device.forgives:
                    return 0.0
                raise DeviceError("an event is asked for a time, and has not happened")
        if self.at < earlier.at and not self._device.forgives:
            raise DeviceError("an event is asked for the time since one that came after it")
        # As CUDA tells it: in ms, as a float32.
        return float(np.float32(1000 * (self.at - earlier.at))) / 1000

    def synchronize(self) -> None:
        self._device.require_no_capture("synchronizes")
        if self._device.leaves_out():
            return
        wanted = self.recorded
        self._device.scheduler.run_until(lambda: self.happened >= wanted)


@dataclass(frozen=True, eq=False)
class EmulatedKernel:
    name: str
    function: Any
    launched: list[bool]


class EmulatedProgram:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._kernels: dict[str, EmulatedKernel] = {}

    def kernel(self, name: str) -> EmulatedKernel:
        if name not in self._kernels:
            function = getattr(self._library, f"emulate_{name}")
            function.restype = ctypes.c_char_p
            self._kernels[name] = EmulatedKernel(name, function, [])
        return self._kernels[name]


@dataclass(frozen=True, eq=False)
class Recording:
    """An event of a graph, recorded anew with each replay."""

    event: EmulatedEvent

    def __call__(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class EmulatedGraph:
    operations: list[Callable[[], None]]


class EmulatedStream:
    """A queue of the scheduler."""

    def __init__(self, device: EmulatedDevice) -> None:
        self._device = device
        self._queue = device.scheduler.queue()

    def upload(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, device=(target,))

    def download(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, device=(source,))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, device=(target, source))

    def fill(self, target: int, byte: int, nbytes: int) -> None:
        def fill() -> None:
            self._device.pool.require(target, nbytes)
            ctypes.memset(target, byte, nbytes)

        self._add(fill)

    def launch(
        self,
        kernel: EmulatedKernel,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Argument],
        shared_nbytes: int = 0,
    ) -> None:
        assert shared_nbytes == 0
        if self._device.captured is not None and not kernel.launched:
            raise DeviceError(f"{kernel.name} is captured before it was launched once")
        kernel.launched.append(True)
        given = [np.uint64(argument) if isinstance(argument, int) else argument for argument in arguments]
        values = [np.array(argument) for argument in given]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        sizes = (ctypes.c_size_t * len(values))(*(value.nbytes for value in values))
        scheduler = self._device.scheduler

        def launch() -> None:
            order, seed = scheduler.random.randrange(FIXED_ORDERS), scheduler.random.getrandbits(63)
            how = _Launch((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), order, seed)
            wrong = kernel.function(ctypes.byref(how), pointers, sizes, ctypes.c_size_t(len(values)))
            assert len(values) == len(pointers)  # Which keeps them alive.
            if wrong:
                raise DeviceError(f"{kernel.name}: {wrong.decode()}")

        self._add(launch)

    def record(self, event: EmulatedEvent) -> None:
        if self._device.captured is not None:
            if not event.timed:
                self._device.require_no_capture("records an event of which nothing can be asked")
            self._device.captured.append(Recording(event))
            return
        event.recorded += 1
        self._add(partial(event.happens, event.recorded))

    def wait(self, event: EmulatedEvent) -> None:
        self._device.require_no_capture("waits for an event")
        if self._device.leaves_out():
            return
        wanted = event.recorded
        self._device.scheduler.add(self._queue, Operation(lambda: None, lambda: event.happened >= wanted))

    def synchronize(self) -> None:
        self._device.require_no_capture("synchronizes")
        if self._device.leaves_out():
            return
        self._device.scheduler.run_until(lambda: not self._queue.operations)

    def capture(self, work: Callable[[], None]) -> EmulatedGraph:
        self._device.require_no_capture("captures")
        self._device.captured = []
        try:
            work()
            return EmulatedGraph(self._device.captured)
        finally:
            self._device.captured = None

    def replay(self, graph: EmulatedGraph) -> None:
        self._device.graphs_replayed += 1
        for operation in graph.operations:
            if isinstance(operation, Recording):
                self.record(operation.event)
            else:
                self._add(operation)

    def _copy(self, target: int, source: int, nbytes: int, device: tuple[int, ...]) -> None:
        def copy() -> None:
            for address in device:
                self._device.pool.require(address, nbytes)
            move(target, source, nbytes)

        self._add(copy)

    def _add(self, operation: Callable[[], None]) -> None:
        if self._device.captured is not None:
            self._device.captured.append(operation)
        else:
            self._device.scheduler.add(self._queue, Operation(operation))
