"""Values in another type: each one as it was, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from frame_formats.errors import SourceError
from frame_formats.source import Frames, FrameSource


class AsType(FrameSource):
    """Frames whose values are stored as another integer type.

    Args:
        source: whose frames they are.
        dtype: an integer type. A value that it does not hold exactly is an error, never cut or wrapped.
        first: the number by which the first frame is told.
    """

    def __init__(self, source: FrameSource, dtype: np.dtype[Any], first: int = 0) -> None:
        self._source = source
        self._first = first
        self.path = source.path
        self.n_frames = source.n_frames
        self.frame_shape = source.frame_shape
        self.dtype = dtype
        self.frames_together = source.frames_together

    def read(self, start: int, stop: int, out: Frames) -> None:
        """Read frames; see `FrameSource.read`.

        Raises:
            SourceError: a value does not fit.
        """
        values = np.empty(out.shape, self._source.dtype)
        self._source.read(start, stop, values)
        for index, (frame, target) in enumerate(zip(values, out, strict=True), self._first + start):
            unfit = _first_unfit(frame, self.dtype)
            if unfit is not None:
                what = "choose a type that holds all values with --store-as"
                if frame.dtype.kind == "f" and unfit != np.rint(unfit):  # Nor is NaN what it is rounded to.
                    what = "an archive holds whole numbers, and nothing is rounded: make them whole first"
                raise SourceError(
                    f"{self.path} holds the value {unfit} in its frame {index}, which is no {self.dtype}: {what}"
                )
            target[...] = frame

    def cut(self, start: int, stop: int) -> FrameSource:
        """Return frames `start` to `stop` alone."""
        return AsType(self._source.cut(start, stop), self.dtype, self._first + start)


def _first_unfit(frame: Frames, dtype: np.dtype[Any]) -> Any:
    limits = np.iinfo(dtype)
    lowest, highest = frame.min(), frame.max()
    # As Python's numbers: NumPy would compare int64 with uint64 as floats.
    if frame.dtype.kind in "iub":
        if int(lowest) >= limits.min and int(highest) <= limits.max:
            return None
        return lowest if int(lowest) < limits.min else highest
    unfit = ~((frame >= limits.min) & (frame <= limits.max) & (frame == np.rint(frame)))
    return frame[unfit][0] if unfit.any() else None
