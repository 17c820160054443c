"""Sources that follow each other, as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frame_formats.errors import SourceError
from frame_formats.source import Frames, FrameSource, UnreadableFrameError


class FrameSeries(FrameSource):
    """Sources of one shape and type, one after the other.

    Raises:
        SourceError: they are not; the sentence names the first that differs.
    """

    def __init__(self, sources: Sequence[FrameSource]) -> None:
        first = sources[0]
        for other in sources[1:]:
            if other.frame_shape != first.frame_shape:
                raise SourceError(
                    f"{other.path} has frames of {_pixels(other)}, and {first.path} of {_pixels(first)}: "
                    "give sources of one detector and region"
                )
            if other.dtype != first.dtype:
                raise SourceError(
                    f"{other.path} holds {other.dtype} values, and {first.path} {first.dtype}: store all as one type "
                    "that holds them with --store-as"
                )
        self._sources = tuple(sources)
        self._ends = list(accumulate(source.n_frames for source in sources))
        self.path = first.path
        self.n_frames = self._ends[-1]
        self.frame_shape = first.frame_shape
        self.dtype = first.dtype
        self.frames_together = max(source.frames_together for source in sources)
        self.singly = all(source.singly for source in sources)

    def read(self, start: int, stop: int, out: Frames) -> None:
        """Read frames; see `FrameSource.read`."""
        for source, first, a, b in self._among(start, stop):
            try:
                source.read(a, b, out[first + a - start : first + b - start])
            except UnreadableFrameError as error:
                raise UnreadableFrameError(first + error.index, error.why) from error

    def cut(self, start: int, stop: int) -> FrameSource:
        """Return frames `start` to `stop` alone, of the sources that they are in."""
        cuts = [source.cut(a, b) for source, _, a, b in self._among(start, stop)]
        return cuts[0] if len(cuts) == 1 else FrameSeries(cuts)

    def _among(self, start: int, stop: int) -> Iterator[tuple[FrameSource, int, int, int]]:
        index = int(np.searchsorted(self._ends, start, side="right"))
        while index < len(self._sources):
            source = self._sources[index]
            first = self._ends[index] - source.n_frames
            if first >= stop:
                return
            a, b = max(start, first) - first, min(stop, first + source.n_frames) - first
            if a < b:
                yield source, first, a, b
            index += 1


class Reordered(FrameSource):
    """Frames of a source in another order.

    Args:
        source: where they are.
        order: (frame), which frame of the source comes where.
    """

    def __init__(self, source: FrameSource, order: npt.NDArray[np.int64]) -> None:
        self._source, self._order = source, order
        self.path: Path = source.path
        self.n_frames = len(order)
        self.frame_shape = source.frame_shape
        self.dtype = source.dtype
        self.frames_together = source.frames_together
        self.singly = source.singly

    def read(self, start: int, stop: int, out: Frames) -> None:
        """Read frames; see `FrameSource.read`."""
        done = start
        for a, b in runs(self._order[start:stop]):
            try:
                self._source.read(a, b, out[done - start : done - start + b - a])
            except UnreadableFrameError as error:
                raise UnreadableFrameError(done + error.index - a, error.why) from error
            done += b - a

    def cut(self, start: int, stop: int) -> FrameSource:
        """Return frames `start` to `stop` alone."""
        cuts = [self._source.cut(a, b) for a, b in runs(self._order[start:stop])]
        return cuts[0] if len(cuts) == 1 else FrameSeries(cuts)


def runs(order: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of numbers that follow each other."""
    breaks = np.flatnonzero(np.diff(order) != 1) + 1
    for run in np.split(order, breaks):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1


def _pixels(source: FrameSource) -> str:
    return "×".join(map(str, source.frame_shape)) + " pixels"
