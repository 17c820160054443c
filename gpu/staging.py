"""Frames on their way to a device: from wherever they are into staging memory, or straight from page-locked memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.common_mode_correction import CommonModeCorrection
from finder.frames import Frames
from finder.gain_bits import in_another_gain


class FrameFeed(ABC):
    """The frames of one call, to be handed over a chunk at a time, in order.

    Attributes:
        n_frames: how many there are.
    """

    def __init__(self, n_frames: int) -> None:
        self.n_frames = n_frames

    @property
    def locked_address(self) -> int | None:
        """Where the frames begin, if they are page-locked and as the device takes them: then nothing is staged."""
        return None

    @abstractmethod
    def stage(self, first: int, target: NDArray[Any]) -> None:
        """Write as many frames as `target` (frame, y, x) holds to it, from number `first` on."""


class PlainFeed(FrameFeed):
    """Frames as the detector wrote them, in any memory order and byte order.

    Args:
        frames: (frame, y, x).
        locked: whether they are page-locked, C-contiguous and in native byte order.
    """

    def __init__(self, frames: Frames, locked: bool) -> None:
        super().__init__(len(frames))
        self._frames, self._locked = frames, locked

    @property
    def locked_address(self) -> int | None:
        """As `FrameFeed` has it."""
        return int(self._frames.ctypes.data) if self._locked else None

    def stage(self, first: int, target: NDArray[Any]) -> None:
        """Copy, without the interpreter's lock."""
        np.copyto(target, self._frames[first : first + len(target)])


class CorrectedFeed(FrameFeed):
    """Frames whose common mode is subtracted on the host.

    Args:
        frames: (frame, y, x).
        correction: of the chain.
        gain_bits: of the parameters.
    """

    def __init__(self, frames: Frames, correction: CommonModeCorrection, gain_bits: int) -> None:
        super().__init__(len(frames))
        self._frames, self._correction, self._gain_bits = frames, correction, gain_bits

    def stage(self, first: int, target: NDArray[Any]) -> None:
        """Write X − X0 − c, NaN where a pixel is in another gain."""
        frames = self._frames[first : first + len(target)]
        done = 0
        for part in self._correction.differences(frames, np.float32):
            target[done : done + len(part)] = part
            done += len(part)
        if self._gain_bits:
            target[in_another_gain(frames, self._gain_bits)] = np.nan
