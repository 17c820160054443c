"""What every reader of a format offers: frames that can be read from anywhere, and what is known of them."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[Any]


class FrameStatus(enum.IntFlag):
    """What is wrong with a frame, as bits (CF `flag_masks`); 0 is a good one."""

    MISSING_PACKETS = 1
    MISSING_MODULE = 2
    DUPLICATE_NUMBER = 4
    AFTER_GAP = 8


class FrameSource(ABC):
    """Frames that can be read in any order: small, and pickles, so that any worker reads its own.

    Attributes:
        path: the file to name when something is wrong.
        n_frames: how many there are.
        frame_shape: (y, x).
        dtype: of the values, in native byte order.
        frames_together: how many frames are decoded together: reading fewer at a time costs more.
        singly: whether reading frames one by one costs no more than many in one call.
    """

    path: Path
    n_frames: int
    frame_shape: tuple[int, int]
    dtype: np.dtype[Any]
    frames_together: int = 1
    singly: bool = False

    @abstractmethod
    def read(self, start: int, stop: int, out: Frames) -> None:
        """Read frames `start` to `stop` into `out`, (frame, y, x), C-ordered, of `dtype`.

        Raises:
            UnreadableFrameError: a frame cannot be read; those before it lie in `out`.
        """

    def cut(self, start: int, stop: int) -> FrameSource:
        """Return frames `start` to `stop` alone, without what only the others need."""
        return _Cut(self, start, stop)


class UnreadableFrameError(ValueError):
    """A frame that is damaged or not there.

    Attributes:
        index: of the frame among those of the source that was asked.
        why: what is wrong, in a sentence that names the file.
    """

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why

    def __reduce__(self) -> tuple[type[UnreadableFrameError], tuple[int, str]]:
        return (type(self), (self.index, self.why))


@dataclass(frozen=True)
class SourceFile:
    """A file that frames come from.

    Args:
        path: where it is.
        n_frames: how many of the source's frames begin in it, one after the other.
    """

    path: Path
    n_frames: int


@dataclass(frozen=True)
class SourceFacts:
    """What is known of frames beside their pixels.

    Args:
        format: its name, for a person.
        attrs: exposure, photon energy and so on, in the words of the archive's attributes.
        header: what else the files say of themselves.
        frame_numbers: (frame) uint64, the detector's own, or None.
        frame_status: (frame) uint8, bits of `FrameStatus`, or None.
        columns: other values of each frame (frame), such as `timestamp`.
        column_attrs: units and meaning of `columns`.
        pixel_mask: (y, x) NeXus bits, or None.
        files: in the order of the frames.
        problems: sentences for the user.
        ended_early: where frames that should be there are not, a sentence that says so; else empty.
        n_lost: how many frames are not there, where that is known.
        dark: frames of darks that came with it, or None.
    """

    format: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)
    frame_numbers: npt.NDArray[np.uint64] | None = None
    frame_status: npt.NDArray[np.uint8] | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    column_attrs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pixel_mask: npt.NDArray[np.uint32] | None = None
    files: tuple[SourceFile, ...] = ()
    problems: tuple[str, ...] = ()
    ended_early: str = ""
    n_lost: int = 0
    dark: FrameSource | None = None


@dataclass(frozen=True)
class OpenedSource:
    """Frames and what is known of them."""

    frames: FrameSource
    facts: SourceFacts

    def with_facts(self, **changes: Any) -> OpenedSource:
        """Return the same frames with some facts changed."""
        return OpenedSource(self.frames, dataclasses.replace(self.facts, **changes))


class _Cut(FrameSource):
    def __init__(self, source: FrameSource, start: int, stop: int) -> None:
        self._source = source
        self._start = start
        self.path = source.path
        self.n_frames = stop - start
        self.frame_shape = source.frame_shape
        self.dtype = source.dtype
        self.frames_together = source.frames_together
        self.singly = source.singly

    def read(self, start: int, stop: int, out: Frames) -> None:
        try:
            self._source.read(self._start + start, self._start + stop, out)
        except UnreadableFrameError as error:
            raise UnreadableFrameError(error.index - self._start, error.why) from error
