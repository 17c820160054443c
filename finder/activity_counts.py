"""The counts of a chain of the CPU finder: bit-sliced while the kernel adds to them, plain for whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from finder.activity import PixelActivity
from finder.chain_memory import counters_of, n_tiles, unpadded
from finder.kernel_count import add_up
from finder.kernel_types import DIGITS, LARGEST_COUNT, TILE_ROWS, Image, Kernel
from finder.stored_code import load_or_compile

UInt32 = NDArray[np.uint32]


class ActivityCounts:
    """Counts how often each pixel went which way.

    Attributes:
        counters: what the kernel adds to, for at most `frames_until_full` more frames.
    """

    def __init__(self, image: Image, kernel: Kernel) -> None:
        self._image, self._kernel = image, kernel
        self.counters = counters_of(image, kernel)
        tiles = n_tiles(image, kernel)
        self._sliced_shape = tiles, DIGITS, TILE_ROWS, image.mark_words
        self._totals = [np.zeros((tiles, TILE_ROWS, image.padded), np.uint32) for _ in range(2)]
        self._n_frames = 0
        self._n_sliced: int = 0

    @property
    def frames_until_full(self) -> int:
        """Frames that the kernel may count before `counted` is called."""
        return LARGEST_COUNT - self._n_sliced

    def counted(self, n_frames: int) -> None:
        """The kernel has counted so many frames more."""
        self._n_frames += n_frames
        self._n_sliced += n_frames
        if self._n_sliced == LARGEST_COUNT:
            self._add_up()

    def activity(self, masked: NDArray[np.bool_] | None) -> PixelActivity:
        """The counts (y, x): copies."""
        self._add_up()
        quiet, blind = (unpadded(total.reshape(-1), self._image, self._kernel) for total in self._totals)
        centres = self.counters.centres.reshape(self._image.rows, self._image.cols).copy()
        # In each frame a pixel goes one of three ways.
        firing = np.uint32(self._n_frames) - quiet - blind
        if masked is not None:
            for count in (quiet, firing, blind):
                count[masked] = 0
        return PixelActivity(self._n_frames, quiet, firing, blind, centres)

    def _add_up(self) -> None:
        if self._n_sliced:
            for sliced, total in zip((self.counters.quiet, self.counters.blind), self._totals, strict=True):
                given = sliced.reshape(self._sliced_shape), total
                _compiled_add_up()(*given)
        self._n_sliced = 0


@cache
def _compiled_add_up() -> Callable[..., Any]:
    example = np.zeros((1, 1, 1, 1), np.uint64), np.zeros((1, 1, 1), np.uint32)
    signature = tuple(typeof(argument) for argument in example)
    return load_or_compile(add_up, "add_up", signature, "the counting of pixels")
