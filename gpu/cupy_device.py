"""A real GPU, through CuPy's thin layer over CUDA's runtime and driver.

Nothing of CuPy's arrays, pools or streams is used: its pinned pool rounds up to powers of two and never gives back, its
arrays can't be copied to or from while a graph is captured, and its streams are the thread's and not the caller's. All
calls here let go of the interpreter's lock while CUDA works.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpu.availability import driver_too_old_for, missing_cupy
from gpu.compiling import KERNELS, cubin
from gpu.cuda_errors import NO_BINARY, NO_DEVICE, driver_too_old, told_as_ours
from gpu.device import (
    Argument,
    Device,
    DeviceError,
    Event,
    Extent,
    FreeMemory,
    Graph,
    Kernel,
    KernelSource,
    OutOfDeviceMemoryError,
    PageLock,
    Program,
    Stream,
)
from gpu.external_events import record_as_external
from gpu.giving_back import give_back, nothing_given_back, quietly

# More than this a kernel has to ask for.
_PLAIN_SHARED_BYTES = 48 << 10
_HOST_REGISTER_READ_ONLY = 8


def open_device() -> Device:
    """The first GPU that this process sees.

    Raises:
        RuntimeError: it cannot be used, and why.
    """
    try:
        from cupy.cuda import runtime
        from cupy_backends.cuda.api import driver
    except ImportError as error:
        raise RuntimeError(missing_cupy()) from error
    try:
        runtime.setDevice(0)
        runtime.free(0)  # what brings the context to life, on every version
        properties = runtime.getDeviceProperties(0)
    except RuntimeError as error:
        if driver_too_old(error):
            raise RuntimeError(driver_too_old_for(runtime.runtimeGetVersion() // 1000, str(error))) from error
        if getattr(error, "status", None) in NO_DEVICE:
            raise RuntimeError(f"CUDA sees no GPU in this process ({error}): see CUDA_VISIBLE_DEVICES") from error
        raise RuntimeError(f"the GPU can't be used: {error}") from error
    return CupyDevice(_Cuda(runtime, driver), properties)


class _Cuda:
    """CuPy's runtime and driver modules, for threads of which each has to be told the device once."""

    def __init__(self, runtime: Any, driver: Any) -> None:
        self._runtime = runtime
        self._driver = driver
        self._of_thread = threading.local()

    @property
    def runtime(self) -> Any:
        """CUDA's runtime, with the device chosen for the thread that asks."""
        self._choose()
        return self._runtime

    @property
    def driver(self) -> Any:
        """CUDA's driver, likewise."""
        self._choose()
        return self._driver

    def record_in_capture(self, event: int, stream: int) -> None:
        """Record an event in a graph that is being captured, as one that the host may look at."""
        self._choose()
        record_as_external(event, stream)

    def _choose(self) -> None:
        if not getattr(self._of_thread, "chosen", False):
            self._runtime.setDevice(0)
            self._runtime.free(0)
            self._of_thread.chosen = True


class CupyDevice:
    """Device 0 of this process.

    Args:
        cuda: CUDA.
        properties: what its runtime says of the device.
    """

    def __init__(self, cuda: _Cuda, properties: dict[str, Any]) -> None:
        self._cuda = cuda
        self._programs: dict[KernelSource, _Program] = {}
        self._loading = threading.Lock()
        name = properties["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        self.architecture = int(properties["major"]) * 10 + int(properties["minor"])

    def allocate(self, nbytes: int) -> _Memory:
        """Device memory."""
        with told_as_ours(f"{nbytes} bytes of GPU memory can't be had"):
            address = int(self._cuda.runtime.malloc(max(nbytes, 1)))
        return _Memory(self._cuda, address, nbytes)

    def allocate_pinned(self, nbytes: int) -> _PinnedMemory:
        """Page-locked host memory, exactly so much."""
        try:
            with told_as_ours(f"{nbytes} bytes of memory can't be page-locked"):
                runtime = self._cuda.runtime
                address = int(runtime.hostAlloc(max(nbytes, 1), runtime.hostAllocPortable))
        except OutOfDeviceMemoryError as error:
            raise DeviceError(str(error)) from error  # it is the host's memory that there is too little of
        return _PinnedMemory(self._cuda, address, nbytes)

    def page_lock(self, array: NDArray[Any]) -> PageLock:
        """Page-lock an array where it is."""
        if not array.flags.c_contiguous:
            raise ValueError("an array whose values don't lie one after the other can't be page-locked: copy it")
        return _PageLock(self._cuda, array)

    def stream(self) -> Stream:
        """A new stream."""
        return _Stream(self._cuda)

    def event(self, timed: bool = False) -> Event:
        """A new event, of which it can be asked when it happened if it is `timed`."""
        return _Event(self._cuda, timed)

    def load(self, source: KernelSource) -> Program:
        """Compile, or find compiled, and load; once for all that ask for the same."""
        with self._loading:
            if source not in self._programs:
                code = cubin(KERNELS / source.file, self.architecture, dict(source.definitions))
                self._programs[source] = _Program(self._cuda, code, source.file)
            return self._programs[source]

    def memory(self) -> FreeMemory:
        """Device memory that is free, and in all."""
        with told_as_ours("the GPU does not say how much memory it has"):
            free, total = self._cuda.runtime.memGetInfo()
        return FreeMemory(int(free), int(total))


class _Memory:
    def __init__(self, cuda: _Cuda, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self._release = weakref.finalize(self, give_back, lambda: cuda.runtime.free(address))
        self._release.atexit = False

    def free(self) -> None:
        self._release()


class _PinnedMemory:
    def __init__(self, cuda: _Cuda, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        content = (ctypes.c_uint8 * nbytes).from_address(address)
        self.array: NDArray[np.uint8] = np.ctypeslib.as_array(content)
        # Given back, if not by `free`, then when no view of it is left.
        self._release = weakref.finalize(content, give_back, lambda: cuda.runtime.freeHost(address))
        self._release.atexit = False

    def free(self) -> None:
        self.array = np.empty(0, np.uint8)
        self._release()


class _PageLock:
    def __init__(self, cuda: _Cuda, array: NDArray[Any]) -> None:
        address = array.ctypes.data
        with told_as_ours(f"an array of {array.nbytes} bytes can't be page-locked"):
            runtime = cuda.runtime
            flags = int(runtime.hostAllocPortable)
            if not array.flags.writeable and runtime.deviceGetAttribute(
                runtime.cudaDevAttrHostRegisterReadOnlySupported, 0
            ):
                flags |= _HOST_REGISTER_READ_ONLY
            runtime.hostRegister(address, array.nbytes, flags)
        # The array is an argument, so that it lives until it is unlocked.
        self._release = weakref.finalize(self, _unlock, cuda, address, array)
        self._release.atexit = False

    def release(self) -> None:
        self._release()


def _unlock(cuda: _Cuda, address: int, _array: NDArray[Any]) -> None:
    give_back(lambda: cuda.runtime.hostUnregister(address))


class _Event:
    def __init__(self, cuda: _Cuda, timed: bool) -> None:
        self._cuda = cuda
        with told_as_ours("no event can be made"):
            # Who waits sleeps: threads that look again and again would take the cores from those that decode frames.
            flags = int(cuda.runtime.eventBlockingSync) | (0 if timed else int(cuda.runtime.eventDisableTiming))
            handle = int(cuda.runtime.eventCreateWithFlags(flags))
        self.handle = handle
        weakref.finalize(self, give_back, lambda: cuda.runtime.eventDestroy(handle)).atexit = False

    def synchronize(self) -> None:
        with told_as_ours("what was queued on the GPU has failed"):
            self._cuda.runtime.eventSynchronize(self.handle)

    def seconds_since(self, earlier: Event) -> float:
        with told_as_ours("the GPU does not say how long its work took"):
            milliseconds = self._cuda.runtime.eventElapsedTime(cast("_Event", earlier).handle, self.handle)
        return float(milliseconds) / 1000


class _Program:
    def __init__(self, cuda: _Cuda, code: bytes, name: str) -> None:
        try:
            with told_as_ours(f"{name} can't be loaded onto the GPU"):
                module = int(cuda.driver.moduleLoadData(code))
        except DeviceError as error:
            if getattr(error.__cause__, "status", None) in NO_BINARY:
                raise RuntimeError(driver_too_old_for(None, str(error))) from error
            raise
        self._cuda = cuda
        self._module = module
        # For the life of the process: kernels of an unloaded module are code that is gone, and there are few modules.

    def kernel(self, name: str) -> Kernel:
        with told_as_ours(f"the kernel {name} is not there"):
            return _Kernel(self._cuda, int(self._cuda.driver.moduleGetFunction(self._module, name)), name)


class _Kernel:
    def __init__(self, cuda: _Cuda, handle: int, name: str) -> None:
        self._cuda = cuda
        self.handle = handle
        self.name = name
        self._shared_bytes = _PLAIN_SHARED_BYTES

    def allow_shared(self, nbytes: int) -> None:
        """Let launches have so much shared memory."""
        if nbytes > self._shared_bytes:
            driver = self._cuda.driver
            driver.funcSetAttribute(self.handle, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes)
            self._shared_bytes = nbytes


class _Graph:
    def __init__(self, cuda: _Cuda, captured: int) -> None:
        try:
            with told_as_ours("what was captured can't become a graph"):
                self.handle = int(cuda.runtime.graphInstantiate(captured))
        finally:
            quietly(lambda: cuda.runtime.graphDestroy(captured))
        handle = self.handle
        weakref.finalize(self, give_back, lambda: cuda.runtime.graphExecDestroy(handle)).atexit = False


class _Stream:
    def __init__(self, cuda: _Cuda) -> None:
        self._cuda = cuda
        with told_as_ours("no stream can be made"):
            handle = int(cuda.runtime.streamCreateWithFlags(cuda.runtime.streamNonBlocking))
        self.handle = handle
        self._captures = False
        weakref.finalize(self, give_back, lambda: cuda.runtime.streamDestroy(handle)).atexit = False

    def upload(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, "memcpyHostToDevice")

    def download(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, "memcpyDeviceToHost")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._copy(target, source, nbytes, "memcpyDeviceToDevice")

    def _copy(self, target: int, source: int, nbytes: int, kind: str) -> None:
        if not nbytes:
            return
        with told_as_ours(f"{nbytes} bytes can't be copied"):
            runtime = self._cuda.runtime
            runtime.memcpyAsync(target, source, nbytes, getattr(runtime, kind), self.handle)

    def fill(self, target: int, byte: int, nbytes: int) -> None:
        if not nbytes:
            return
        with told_as_ours(f"{nbytes} bytes of GPU memory can't be set"):
            self._cuda.runtime.memsetAsync(target, byte, nbytes, self.handle)

    def launch(
        self, kernel: Kernel, grid: Extent, block: Extent, arguments: Sequence[Argument], shared_nbytes: int = 0
    ) -> None:
        ours = cast("_Kernel", kernel)
        values = [_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
        with told_as_ours(f"the kernel {ours.name} can't be launched"):
            ours.allow_shared(shared_nbytes)
            self._cuda.driver.launchKernel(
                ours.handle, *grid, *block, shared_nbytes, self.handle, ctypes.addressof(pointers), 0
            )

    def record(self, event: Event) -> None:
        handle = cast("_Event", event).handle
        with told_as_ours("an event can't be recorded"):
            if self._captures:
                self._cuda.record_in_capture(handle, self.handle)
            else:
                self._cuda.runtime.eventRecord(handle, self.handle)

    def wait(self, event: Event) -> None:
        with told_as_ours("an event can't be waited for"):
            self._cuda.runtime.streamWaitEvent(self.handle, cast("_Event", event).handle, 0)

    def synchronize(self) -> None:
        with told_as_ours("what was queued on the GPU has failed"):
            self._cuda.runtime.streamSynchronize(self.handle)

    def capture(self, work: Callable[[], None]) -> Graph:
        runtime = self._cuda.runtime
        with nothing_given_back():
            with told_as_ours("no capture can begin"):
                # Other threads may allocate and free while this one captures.
                runtime.streamBeginCapture(self.handle, runtime.streamCaptureModeThreadLocal)
            self._captures = True
            try:
                work()
            except BaseException:
                # The stream would take nothing else. What was captured, if anything is handed over, is of no use.
                quietly(lambda: runtime.graphDestroy(runtime.streamEndCapture(self.handle)))
                raise
            finally:
                self._captures = False
            with told_as_ours("what was queued can't be captured"):
                captured = int(runtime.streamEndCapture(self.handle))
        return _Graph(self._cuda, captured)

    def replay(self, graph: Graph) -> None:
        with told_as_ours("a graph can't be replayed"):
            self._cuda.runtime.graphLaunch(cast("_Graph", graph).handle, self.handle)


def _argument(value: Argument) -> Any:
    """The value in C's representation, of exactly the kernel's type."""
    if isinstance(value, np.int32):
        return ctypes.c_int32(int(value))
    if isinstance(value, np.uint32):
        return ctypes.c_uint32(int(value))
    if isinstance(value, np.float32):
        return ctypes.c_float(float(value))
    assert isinstance(value, int), value
    return ctypes.c_uint64(value)
