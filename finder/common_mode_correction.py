"""The common mode of many frames, subtracted: the reference's integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from finder.common_mode import CommonMode, common_mode_levels
from finder.frames import BLOCK_NBYTES, Frames


class CommonModeCorrection:
    """Subtracts a pedestal's X0 and the frames' common mode.

    Args:
        common_mode: what moves together.
        x0: (y, x) int64, ADU.
        masked: (y, x), True where a pixel is masked; or None.
    """

    def __init__(self, common_mode: CommonMode, x0: NDArray[np.int64], masked: NDArray[np.bool_] | None) -> None:
        self._common_mode = common_mode
        self._x0 = x0
        self._present = np.ones(x0.shape, bool) if masked is None else ~masked

    def differences(self, frames: Frames) -> Iterator[NDArray[np.int64]]:
        """X − X0 − c of the frames (frame, y, x) in order, some at a time."""
        step = max(1, BLOCK_NBYTES // (8 * self._x0.size))
        for first in range(0, len(frames), step):
            block: NDArray[np.int64] = frames[first : first + step].astype(np.int64, order="C") - self._x0
            for difference in block:
                difference -= common_mode_levels(difference, self._common_mode, self._present)
            yield block
