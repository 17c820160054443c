"""A stream context: takes one chain's frames through a device, chunk by chunk, with the next chunk always under way.

For each chunk the host writes frames into a slot's staging memory, and queues on the stream: their copy to the device,
the kernels of all frames, the collecting of clusters, and the copy of the counts. That is captured once as a graph and
replayed, at addresses that stay; what varies lies in a small block of parameters that is copied first. While the device
is at it the host waits for the chunk before, which used the other slot: its counts say how many clusters there are, and
exactly those are copied, on a second stream; none where they are only counted.

Events at the borders of the stages, in the graph and beside it, tell how long the device was at each.

Nothing is ever cut off: where the clusters of a chunk are more than there is room for, the device gathers none of them;
the host sees the count, makes room, and has them gathered again from what the search has left in the slot. The
pedestal needs no way back: it does not depend on that room.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder import Pedestal
from finder.device_use import DeviceUse
from finder.kept_clusters import KeptClusters
from finder.products import Products
from gpu.chain_memory import CENTRES, COUNTED, COUNTS, S1, STATE, UPLOADED, X0, ChainMemory, packed_planes
from gpu.chunk_plan import ChunkPlan
from gpu.device import Device, DeviceError, Graph, LostDeviceError
from gpu.host_memory import host_memory
from gpu.kernel_set import KernelSet
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.slot import Slot
from gpu.stage_clock import Origin, StageClock
from gpu.staging import FrameFeed

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnderWay:
    """A chunk whose work is queued.

    Attributes:
        slot: where.
        first: its first frame, in the call.
        n_frames: how many there are.
        origin: from before the work was queued.
    """

    slot: Slot
    first: int
    n_frames: int
    origin: Origin


@dataclass(frozen=True)
class Wanted:
    """What a call wants of its frames.

    Attributes:
        n_clusters: (frame) uint32, gets the clusters of each.
        kept: gets the clusters; None: they stay on the device, which counts what it is to count of them.
    """

    n_clusters: NDArray[np.uint32]
    kept: KeptClusters | None


class StreamContext:
    """Streams, slots and graphs. It works for one chain at a time, and belongs to one thread at a time.

    Args:
        device: where.
        plan: what is worked on together.
        clock: of the finder.
        present: address of (y, x) uint8 on the device, 0 where a pixel is masked.
    """

    def __init__(self, device: Device, plan: ChunkPlan, clock: StageClock, present: int) -> None:
        self.kind = plan.kind
        self._plan, self._chunk, self._clock = plan, plan.chunk, clock
        self._graphs = plan.settings.graphs
        self._n_pixels, self._frame_nbytes = plan.n_pixels, plan.frame_nbytes
        self._stream, self._downloads = device.stream(), device.stream()
        self._kernels = KernelSet(device, plan, present)
        self._slots = [Slot(device, plan) for _ in range(2)]
        self._planes = host_memory(device, UPLOADED * self._n_pixels, plan.settings.pinned)
        self._warm_up()

    def load(self, memory: ChainMemory, pedestal: Pedestal) -> None:
        """Let a chain begin: copy its pedestal to the device, and set its counts to 0.

        To be followed by `run`, which waits for all that is before it on the stream.
        """
        packed_planes(pedestal, self.kind.wide, self._planes.array)
        self._stream.upload(memory.plane(X0), self._planes.address, UPLOADED * self._n_pixels)
        self._stream.fill(memory.plane(COUNTS), 0, COUNTED * self._n_pixels)
        if memory.products:
            self._stream.fill(memory.products, 0, memory.counted.nbytes)

    def load_x0(self, memory: ChainMemory, pedestal: Pedestal) -> None:
        """Copy X0 alone: a chain that goes on with frames of another kind. To be followed by `run`."""
        packed_planes(pedestal, self.kind.wide, self._planes.array)
        self._stream.upload(memory.plane(X0), self._planes.address, S1 * self._n_pixels)

    def state(self, memory: ChainMemory) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A chain's s1 and s2 (pixel): copies."""
        planes = self._downloaded(memory.plane(S1), STATE).view(np.float32)
        return planes[0], planes[1]

    def counts(self, memory: ChainMemory) -> NDArray[np.uint32]:
        """How often a chain's pixels were updated, blind, centres, in another gain: (4, pixel), a copy."""
        return self._downloaded(memory.plane(COUNTS), COUNTED).view(np.uint32)

    def products(self, memory: ChainMemory, shape: tuple[int, int]) -> Products:
        """What a chain counted of its clusters on frames of `shape` (y, x): copies.

        Raises:
            SignalRangeError: a value that fits no int32.
        """
        content = np.empty(memory.counted.nbytes, np.uint8)
        self._stream.download(int(content.ctypes.data), memory.products, content.nbytes)
        centres = self.counts(memory)[CENTRES].reshape(shape)  # Which waits for all that is on the stream.
        return memory.counted.products(content, centres)

    def run(self, memory: ChainMemory, feed: FrameFeed, tracked: bool, wanted: Wanted | None) -> DeviceUse:
        """Take a chain's next frames through the device.

        Args:
            memory: the chain's, loaded.
            feed: the frames.
            tracked: whether they move the pedestal.
            wanted: what is wanted of them; None: they move the pedestal and do nothing else.

        Returns:
            What that took of the device.

        Raises:
            DeviceError: the device has failed; the context and the chain are of no use then.
        """
        use = DeviceUse()
        under_way: UnderWay | None = None
        description = self._description(memory, tracked, wanted)
        for nth, first in enumerate(range(0, feed.n_frames, self._chunk.frames)):
            slot, n_frames = self._slots[nth % 2], min(self._chunk.frames, feed.n_frames - first)
            slot.describe(description, n_frames)
            chunk = UnderWay(slot, first, n_frames, self._clock.origin())
            self._start(chunk, feed)
            if under_way is not None:
                use += self._finish(under_way, wanted)
            under_way = chunk
            if not self._plan.settings.overlap:
                use += self._finish(under_way, wanted)
                under_way = None
        if under_way is not None:
            use += self._finish(under_way, wanted)
        return use

    def settle(self) -> None:
        """Wait until nothing is under way, whatever happened.

        Raises:
            DeviceError: the device has failed.
        """
        for stream in (self._stream, self._downloads):
            stream.synchronize()

    def _description(self, memory: ChainMemory, tracked: bool, wanted: Wanted | None) -> NDArray[Any]:
        """What is the same for all chunks of a call."""
        parameters = self._plan.parameters
        gain_bits = parameters.gain_bits
        fields: dict[str, Any] = {
            "counted": wanted is not None,
            "listed": wanted is not None and wanted.kept is not None,
            "tracked": tracked,
            "inverse_n_samples": parameters.inverse_n_samples,
            "squared_n_sigma": parameters.squared_n_sigma,
            "gain_shift": 16 - gain_bits if gain_bits else 0,
            **memory.addresses(),
        }
        description = np.zeros(1, PARAMETER_BLOCK)
        for name, value in fields.items():
            description[name] = value
        return description

    def _start(self, chunk: UnderWay, feed: FrameFeed) -> None:
        """Stage a chunk and queue its work."""
        slot, n_frames, address = chunk.slot, chunk.n_frames, feed.locked_address
        if address is None:
            feed.stage(chunk.first, slot.frames[:n_frames])
        staged = address is None and n_frames == self._chunk.frames
        # Before anything is timed: the first time, this takes long.
        graph = self._captured(slot, staged) if self._graphs else None
        if not staged:  # From where they are, or fewer than a graph copies.
            source = slot.staging_address if address is None else address + chunk.first * self._frame_nbytes
            self._upload(slot, source, n_frames * self._frame_nbytes)
        if graph is not None:
            self._stream.replay(graph)
        else:
            needed = -(-n_frames // self._chunk.frames_a_launch)
            self._queue(slot, needed + needed % 2, staged)
        self._stream.record(slot.done)

    def _upload(self, slot: Slot, source: int, nbytes: int) -> None:
        with slot.uploading.on(self._stream):
            self._stream.upload(slot.at.frames, source, nbytes)

    def _captured(self, slot: Slot, staged: bool) -> Graph | None:
        """A chunk's work as a graph; None, once and for all, where the driver makes none of it: it only saves time."""
        if staged not in slot.graphs:
            try:
                slot.graphs[staged] = self._stream.capture(partial(self._queue, slot, self._chunk.launches, staged))
            except LostDeviceError:
                raise
            except DeviceError as error:
                logger.warning("the GPU's work is queued piece by piece, which is slower: %s", error)
                self._graphs = False
                return None
        return slot.graphs[staged]

    def _queue(self, slot: Slot, n_launches: int, staged: bool) -> None:
        """All of a chunk's work, on the stream."""
        self._stream.upload(slot.at.block, slot.block_address, PARAMETER_BLOCK.itemsize)
        if staged:
            self._upload(slot, slot.staging_address, slot.chunk_nbytes)
        with slot.kernels.on(self._stream):
            self._kernels.search_and_collect(self._stream, slot.at, n_launches)
        self._stream.download(slot.found_address, slot.at.found, slot.found_nbytes)

    def _finish(self, chunk: UnderWay, wanted: Wanted | None) -> DeviceUse:
        """Wait for a chunk, and fetch its clusters; what all of it took of the device."""
        slot, first, n_frames, claim = chunk.slot, chunk.first, chunk.n_frames, self._clock.claim
        slot.done.synchronize()
        use = DeviceUse(
            h2d_seconds=claim("H2D", chunk.origin, slot.uploading),
            kernel_seconds=claim("kernel", chunk.origin, slot.kernels),
            h2d_bytes=n_frames * self._frame_nbytes,
        )
        if wanted is None:
            return use
        wanted.n_clusters[first : first + n_frames] = slot.found[1 : 1 + n_frames]
        if wanted.kept is None:
            return use
        n = int(slot.found[0])
        if n > slot.capacity:
            self._gather_again(slot, n)
        if n:
            nbytes = n * slot.cluster_nbytes
            with slot.landing.on(self._downloads):
                self._downloads.download(slot.landing_address, slot.clusters_address, nbytes)
            slot.landing.ended.synchronize()
            use += DeviceUse(d2h_seconds=claim("D2H", chunk.origin, slot.landing), d2h_bytes=nbytes)
        keep(wanted.kept, slot, n, first)
        return use

    def _gather_again(self, slot: Slot, n_clusters: int) -> None:
        slot.grow(n_clusters)
        slot.describe_room()
        self._downloads.upload(slot.at.block, slot.block_address, PARAMETER_BLOCK.itemsize)
        self._kernels.gather(self._downloads, slot.at)

    def _downloaded(self, source: int, nbytes_a_pixel: int) -> NDArray[np.uint8]:
        nbytes = nbytes_a_pixel * self._n_pixels
        self._stream.download(self._planes.address, source, nbytes)
        self._stream.synchronize()
        return self._planes.array[:nbytes].reshape(nbytes_a_pixel // 4, -1).copy()

    def _warm_up(self) -> None:
        """Launch each kernel once, on no frames: a kernel that is first launched in a capture may have to be loaded."""
        for slot in self._slots:
            slot.describe(np.zeros(1, PARAMETER_BLOCK), n_frames=0)
            self._queue(slot, self._chunk.launches, staged=False)
        self._stream.synchronize()


def keep(kept: KeptClusters, slot: Slot, n: int, first: int) -> None:
    """Add the `n` clusters that have landed in a slot, of frames from `first` on."""
    if n > kept.room - kept.n_found:
        kept.make_room(n)
    found, begin, end = kept.found, kept.n_found, kept.n_found + n
    signal, frame_index, y, x = slot.landed_clusters(n)
    area = len(signal) // n if n else 0
    found.signal[begin * area : end * area] = signal
    np.add(frame_index, np.uint32(first), out=found.frame_index[begin:end])
    found.y[begin:end], found.x[begin:end] = y, x
    kept.n_found = end
