"""The counts of a chain of the CPU finder: bit-sliced while the kernel adds to them, plain for whoever asks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from finder.activity import PixelActivity
from finder.chain_memory import counters_of, unpadded
from finder.compiled_code import compiled
from finder.huge_pages import Memory
from finder.kernel_code import add_up_code
from finder.kernel_types import CENTRE, LARGEST_COUNT, N_MARKS, QUIET, TILE_ROWS, Image, Kernel


class ActivityCounts:
    """Counts how often each pixel went which way.

    Attributes:
        counters: what the kernel adds to, for at most `frames_until_full` more frames.
    """

    def __init__(self, memory: Memory, image: Image, kernel: Kernel) -> None:
        self._image, self._kernel = image, kernel
        self.counters = counters_of(memory, image)
        shape = N_MARKS, TILE_ROWS * image.tiles, image.padded
        self._totals: NDArray[np.uint32] = memory.zeros(math.prod(shape), np.uint32).reshape(shape)
        self._n_frames = 0
        self._n_uncollected: int = 0

    @property
    def frames_until_full(self) -> int:
        """Frames that the kernel may count before `counted` is called."""
        return LARGEST_COUNT - self._n_uncollected

    def counted(self, n_frames: int) -> None:
        """The kernel has counted so many frames more."""
        self._n_frames += n_frames
        self._n_uncollected += n_frames
        if self._n_uncollected == LARGEST_COUNT:
            self._add_up()

    def activity(self, masked: NDArray[np.bool_] | None, switched: NDArray[np.uint32]) -> PixelActivity:
        """The counts (y, x): copies.

        Args:
            masked: (y, x), True where a pixel is masked; or None.
            switched: (y, x), in how many of the frames a pixel was in another gain.
        """
        self._add_up()
        planes = self._totals[QUIET], self.counters.blind, self._totals[CENTRE]
        quiet, blind, centres = (unpadded(plane.reshape(-1), self._image, self._kernel) for plane in planes)
        switched = switched.copy()
        # In each frame a pixel goes one way.
        firing = np.uint32(self._n_frames) - quiet - blind - switched
        if masked is not None:
            for count in (quiet, firing, blind, centres, switched):
                count[masked] = 0
        return PixelActivity(self._n_frames, quiet, firing, blind, centres, switched)

    def _add_up(self) -> None:
        if self._n_uncollected:
            # One for all windows: adding up depends on the vectors only.
            kernel = dataclasses.replace(self._kernel, rows=3, cols=3, running=True, tracked=True, gain_bits=0)
            given = self._image, self.counters, self._totals
            compiled(add_up_code(kernel), kernel, *given)(kernel, *given)
        self._n_uncollected = 0
