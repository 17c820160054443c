"""The CUDA finder: the bits of the reference, from a GPU."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder import Chain, Clusters, Finder, FinderParameters, Pedestal, PixelActivity
from finder.common_mode_correction import CommonModeCorrection
from finder.device_use import DeviceUse
from finder.frames import Frames
from finder.kept_clusters import KeptClusters
from finder.products import ProductOptions, Products
from gpu.chain_memory import ChainMemory
from gpu.chunk_plan import ChunkPlan, FrameKind, kind_for
from gpu.device import Device
from gpu.page_locks import LockedArray, PageLocks
from gpu.settings import GpuSettings, chunk_of
from gpu.stage_clock import StageClock
from gpu.staging import CorrectedFeed, FrameFeed, PlainFeed
from gpu.stream_context import StreamContext, Wanted


class CudaFinder(Finder):
    """The finder on a GPU. As many chains run side by side as it has streams, each in a thread of its own.

    Args:
        parameters: what makes a cluster.
        shape: (y, x) of the frames.
        pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked.
        device: the GPU; None: the first that this process sees.
        settings: how frames go through it.
        counts: what its chains count of the clusters that they find, on the GPU.

    Raises:
        ValueError: the mask has another shape, or the settings don't fit the window.
        RuntimeError: the GPU cannot be used, and why.
    """

    backend: ClassVar[str] = "cuda"

    def __init__(
        self,
        parameters: FinderParameters,
        shape: tuple[int, int],
        pixel_mask: ArrayLike | None = None,
        *,
        device: Device | None = None,
        settings: GpuSettings | None = None,
        counts: ProductOptions | None = None,
    ) -> None:
        super().__init__(parameters, shape, pixel_mask)
        self.counts = counts or ProductOptions()
        if device is None:
            from gpu.cupy_device import open_device  # late: CuPy is there only where a GPU is

            device = open_device()
        self.device, self.settings = device, settings or GpuSettings()
        chunk_of(self.settings, parameters, shape[0] * shape[1])  # Refuses what does not fit.
        self.page_locks = PageLocks(device)
        self._clock = StageClock(device)
        self._present = device.allocate(self.shape[0] * self.shape[1])
        self._upload_present()
        self._lock = threading.Lock()
        self._free_streams = threading.Semaphore(self.settings.n_streams)
        self._idle: list[StreamContext] = []
        self._spare_memory: list[ChainMemory] = []

    def register(self, array: NDArray[Any]) -> LockedArray:
        """Page-lock an array of frames where it is, so that slices of it go to the GPU without being copied first.

            with finder.register(frames):
                batch = finder.find(frames[0:2000], pedestal)

        Slices that are not contiguous, or of another byte order than the machine's, and frames with a common mode are
        copied as ever.

        Raises:
            ValueError: it is not contiguous.
            DeviceError: the host has not so much memory that it may lock, or it is locked already.
        """
        return self.page_locks.lock(array)

    def _open_chain(self, pedestal: Pedestal, tracking: bool) -> Chain:
        return CudaChain(self, pedestal, tracking)

    def memory_for_a_chain(self) -> ChainMemory:
        """Device memory of a chain, new or from a chain that is no more."""
        with self._lock:
            if self._spare_memory:
                return self._spare_memory.pop()
        return ChainMemory(self.device, self.shape[0] * self.shape[1], self.counts)

    def take_back(self, memory: ChainMemory) -> None:
        """Keep the memory of a chain that is no more, for the next."""
        self._spare_memory.append(memory)  # Without the lock: garbage may be collected while it is held.

    @contextmanager
    def context(self, kind: FrameKind | None) -> Iterator[StreamContext]:
        """A stream context for frames of `kind` (None: any will do), once one is free.

        Whatever goes wrong, nothing of it is under way afterwards.
        """
        with self._free_streams:
            context = self._taken_context(kind)
            try:
                yield context
            except BaseException:
                context.settle()  # One whose device has failed is not used again.
                self._put_back(context)
                raise
            self._put_back(context)

    def _taken_context(self, kind: FrameKind | None) -> StreamContext:
        with self._lock:
            fitting = [context for context in self._idle if kind in (None, context.kind)]
            if fitting:
                self._idle.remove(fitting[-1])
                return fitting[-1]
            if len(self._idle) == self.settings.n_streams:
                self._idle.pop(0)
        plan = ChunkPlan(
            self.parameters, self.shape, kind or FrameKind("uint16", wide=False), self.settings, self.counts
        )
        return StreamContext(self.device, plan, self._clock, self._present.address)

    def _put_back(self, context: StreamContext) -> None:
        with self._lock:
            self._idle.append(context)

    def _upload_present(self) -> None:
        present = np.ones(self.shape, np.uint8) if self.pixel_mask is None else (~self.pixel_mask).astype(np.uint8)
        stream = self.device.stream()
        stream.upload(self._present.address, present.ctypes.data, present.nbytes)
        stream.synchronize()


class CudaChain(Chain):
    """A chain of the CUDA finder. Its pedestal and counts stay on the GPU from one call to the next."""

    def __init__(self, finder: CudaFinder, pedestal: Pedestal, tracking: bool) -> None:
        super().__init__(finder.shape, tracking)
        self._finder, self._start = finder, pedestal
        parameters = finder.parameters
        self._correction: CommonModeCorrection | None = None
        if parameters.common_mode is not None:
            self._correction = CommonModeCorrection(
                parameters.common_mode, pedestal.x0, finder.pixel_mask, parameters.gain_bits
            )
        self._largest_x0 = max(int(pedestal.x0.max()), -int(pedestal.x0.min()))
        self._memory = finder.memory_for_a_chain()
        weakref.finalize(self, finder.take_back, self._memory)
        self._x0_is_wide: bool | None = None  # None: nothing is on the GPU yet.
        self._n_frames = 0
        self._use = DeviceUse()
        self._clusters_a_frame = finder.settings.room * pedestal.x0.size

    @property
    def pedestal(self) -> Pedestal:
        """The pedestal now: a copy."""
        start = self._start
        if self._x0_is_wide is None or not self.tracking:
            s1, s2 = start.s1.copy(), start.s2.copy()
        else:
            with self._finder.context(None) as context:
                s1, s2 = (plane.reshape(start.shape) for plane in context.state(self._memory))
            if self._finder.parameters.noise == "trained":
                s2 = start.s2.copy()
        return Pedestal(start.x0, s1, s2, start.trained_variance, start.n_samples)

    @property
    def activity(self) -> PixelActivity:
        """The counts so far: a copy."""
        shape = self._start.shape
        if self._n_frames == 0:
            return PixelActivity(0, *(np.zeros(shape, np.uint32) for _ in range(5)))
        with self._finder.context(None) as context:
            updated, blind, centres, switched = context.counts(self._memory).reshape(4, *shape)
        # In each frame a pixel goes one way.
        firing = np.uint32(self._n_frames) - updated - blind - switched
        if self._finder.pixel_mask is not None:
            firing[self._finder.pixel_mask] = 0
        return PixelActivity(self._n_frames, updated, firing, blind, centres, switched)

    @property
    def device_use(self) -> DeviceUse:
        """What the frames given to `find`, `count` and `update` so far took of the GPU."""
        return self._use

    @property
    def products(self) -> Products:
        """What the frames given to `find` and `count` so far add up to: a copy.

        Raises:
            SignalRangeError: a cluster has a value that fits no int32.
        """
        if self._n_frames == 0 or not self._finder.counts.names:
            return Products.zeros(self._finder.counts, self._start.shape)
        with self._finder.context(None) as context:
            return context.products(self._memory, self._start.shape)

    def _find(self, frames: Frames) -> Clusters:
        kept = KeptClusters(len(frames), self._shape, self._finder.parameters.cluster_size, self._clusters_a_frame)
        self._run(frames, Wanted(kept.found.n_clusters, kept))
        if len(frames):
            self._clusters_a_frame = kept.n_found / len(frames)
            self._n_frames += len(frames)
        return kept.clusters()

    def _count(self, frames: Frames) -> NDArray[np.uint32]:
        n_clusters = np.zeros(len(frames), np.uint32)
        self._run(frames, Wanted(n_clusters, kept=None))
        self._n_frames += len(frames)
        return n_clusters

    def _update(self, frames: Frames) -> None:
        self._run(frames, None)

    def _run(self, frames: Frames, wanted: Wanted | None) -> None:
        if len(frames) == 0:
            return
        kind, feed = self._fed(frames)
        with self._finder.context(kind) as context:
            if self._x0_is_wide is None:
                context.load(self._memory, self._start)
            elif self._x0_is_wide != kind.wide:
                context.load_x0(self._memory, self._start)
            self._x0_is_wide = kind.wide
            self._use += context.run(self._memory, feed, self.tracking, wanted)

    def _fed(self, frames: Frames) -> tuple[FrameKind, FrameFeed]:
        parameters = self._finder.parameters
        kind = kind_for(parameters, frames.dtype, self._largest_x0)
        if self._correction is not None:
            return kind, CorrectedFeed(frames, self._correction, parameters.gain_bits)
        as_taken = frames.dtype.isnative and frames.flags.c_contiguous
        return kind, PlainFeed(frames, as_taken and self._finder.page_locks.holds(frames))
