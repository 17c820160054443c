"""The CPU finder: the reference's bits at the speed of the core's vector units."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.activity import PixelActivity
from finder.activity_counts import ActivityCounts
from finder.chain_memory import image_of, memory_of, planes_of, scratch_of, unpadded, x0_of
from finder.clusters import Clusters
from finder.common_mode_correction import CommonModeCorrection
from finder.compiled_code import compiled
from finder.frames import BLOCK_NBYTES, Frames, native_blocks
from finder.gain_bits import add_switched, in_another_gain
from finder.interface import Chain, Finder
from finder.kept_clusters import KeptClusters
from finder.kernel_code import find_clusters_code
from finder.kernel_types import READY, SOURCE_CODES, Constants, Kernel, Source
from finder.native_function import BoundFunction
from finder.parameters import FinderParameters
from finder.pedestal import Pedestal
from finder.processor import host_lanes

FIRST_GUESS = 0.02  # Clusters a pixel, for the first frames of a chain.


class CpuFinder(Finder):
    """The finder on one core; threads that run chains side by side use one core each.

    A chain's memory is 31 bytes a pixel of the frame, a few hundred kilobytes for the rows at work, and the results.
    """

    backend: ClassVar[str] = "cpu"

    def __init__(
        self, parameters: FinderParameters, shape: tuple[int, int], pixel_mask: ArrayLike | None = None
    ) -> None:
        super().__init__(parameters, shape, pixel_mask)
        rows, cols = parameters.cluster_size
        running = parameters.noise == "running"
        self.kernel = Kernel(rows, cols, running, True, host_lanes(), parameters.gain_bits)

    def _open_chain(self, pedestal: Pedestal, tracking: bool) -> Chain:
        return CpuChain(self, pedestal, tracking)


class CpuChain(Chain):
    """A chain of the CPU finder."""

    def __init__(self, finder: CpuFinder, pedestal: Pedestal, tracking: bool) -> None:
        super().__init__(finder.shape, tracking)
        parameters = finder.parameters
        self._window = parameters.cluster_size
        self._kernel = dataclasses.replace(finder.kernel, tracked=tracking)
        self._constants = Constants(parameters.inverse_n_samples, parameters.squared_n_sigma, parameters.area)
        self._start = pedestal
        self._masked = finder.pixel_mask
        self._common_mode: CommonModeCorrection | None = None
        if parameters.common_mode is not None:
            self._common_mode = CommonModeCorrection(
                parameters.common_mode, pedestal.x0, self._masked, parameters.gain_bits
            )
        self._image = image_of(finder.shape, self._kernel)
        self._memory = memory_of(self._image)
        self._planes = planes_of(self._memory, self._image, self._kernel, pedestal, self._masked, self._constants)
        self._scratch = scratch_of(self._memory, self._image, self._kernel)
        self._counts = ActivityCounts(self._memory, self._image, self._kernel)
        self._switched = np.zeros(finder.shape, np.uint32)
        self._x0_range = int(pedestal.x0.min()), int(pedestal.x0.max())
        self._x0: dict[np.dtype[Any], NDArray[Any]] = {}
        self._clusters_a_frame = FIRST_GUESS * finder.shape[0] * finder.shape[1]
        self._find_clusters: BoundFunction | None = None

    @property
    def pedestal(self) -> Pedestal:
        """The pedestal now: a copy."""
        start = self._start
        s1 = self._state(self._planes.s1, start.s1)
        s2 = self._state(self._planes.s2, start.s2) if self._kernel.running else start.s2.copy()
        return Pedestal(start.x0, s1, s2, start.trained_variance, start.n_samples)

    @property
    def activity(self) -> PixelActivity:
        """The counts so far: a copy."""
        return self._counts.activity(self._masked, self._switched)

    def _state(self, plane: NDArray[Any], start: NDArray[Any]) -> NDArray[Any]:
        state = unpadded(plane, self._image, self._kernel)
        if self._masked is not None:
            state[self._masked] = start[self._masked]
        return state

    def _find(self, frames: Frames) -> Clusters:
        kept = KeptClusters(len(frames), self._shape, self._window, self._clusters_a_frame)
        if self._kernel.gain_bits:
            for block in native_blocks(frames):
                add_switched(block, self._kernel.gain_bits, self._switched)
        for source in self._sources(frames, searched=True):
            first = 0
            while first < source.n_frames:
                part = part_of(source, first, self._counts.frames_until_full, source.itemsize * self._start.x0.size)
                self._run(part, kept)
                self._counts.counted(part.n_frames)
                first += part.n_frames
        if len(frames):
            self._clusters_a_frame = kept.n_found / len(frames)
        return kept.clusters()

    def _update(self, frames: Frames) -> None:
        nothing = KeptClusters(0, self._shape, self._window, 0)
        for source in self._sources(frames, searched=False):
            self._run(source, nothing)

    def _run(self, source: Source, kept: KeptClusters) -> None:
        place = np.array([0, 0, kept.n_found])
        if self._find_clusters is None:  # The types are the same for all of a chain's frames.
            given = self._kernel, self._image, self._planes, self._scratch, self._constants, self._counts.counters
            code = find_clusters_code(self._kernel)
            self._find_clusters = compiled(code, *given, source, kept.found, kept.room, place).bound(*given)
        while place[0] < source.n_frames:
            self._find_clusters(source, kept.found, kept.room, place)
            kept.n_found = int(place[2])
            if place[0] < source.n_frames:
                kept.make_room()

    def _sources(self, frames: Frames, searched: bool) -> Iterator[Source]:
        """The frames as the kernel takes them; a source is good until the next one is asked for."""
        number = 0
        for code, block in self._blocks(frames):
            x0 = 0 if code == READY else self._x0_as(block.dtype).ctypes.data
            yield Source(code, block.ctypes.data, block.itemsize, x0, len(block), number, int(searched))
            number += len(block)

    def _x0_as(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        if dtype not in self._x0:  # Once for all frames, as a rule.
            self._x0[dtype] = x0_of(self._memory, self._image, self._kernel, self._start, dtype)
        return self._x0[dtype]

    def _blocks(self, frames: Frames) -> Iterator[tuple[int, NDArray[Any]]]:
        """The frames in blocks, each with the code of its type."""
        if self._common_mode is not None:
            number = 0
            for difference in self._common_mode.differences(frames, np.float32):
                yield READY, self._without_other_gains(difference, frames[number : number + len(difference)])
                number += len(difference)
            return
        if self._within_reach(frames.dtype):
            code = SOURCE_CODES[frames.dtype.newbyteorder("=").name]
            for block in native_blocks(frames):
                yield code, block
            return
        step = max(1, BLOCK_NBYTES // (8 * self._start.x0.size))
        for first in range(0, len(frames), step):
            some = frames[first : first + step]
            difference = some.astype(np.int64) - self._start.x0
            # NumPy keeps the order that the frames had in memory; the kernel reads rows.
            yield READY, self._without_other_gains(difference.astype(np.float32, order="C"), some)

    def _without_other_gains(self, difference: NDArray[np.float32], frames: Frames) -> NDArray[np.float32]:
        """y as the kernel takes it: NaN where a pixel is in another gain."""
        if self._kernel.gain_bits:
            difference[in_another_gain(frames, self._kernel.gain_bits)] = np.nan
        return difference

    def _within_reach(self, dtype: np.dtype[Any]) -> bool:
        """Whether frames' own type holds X0, so that the kernel gets X − X0 exactly."""
        lowest, highest = self._x0_range
        limits = np.iinfo(dtype)
        return limits.min <= lowest and highest <= limits.max


def part_of(source: Source, first: int, at_most: int, frame_nbytes: int) -> Source:
    """A source's frames from `first` on, some of them."""
    n_frames = min(at_most, source.n_frames - first)
    return source._replace(
        address=source.address + first * frame_nbytes, n_frames=n_frames, number=source.number + first
    )
