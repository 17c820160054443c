"""Frames that lie in a file as they are: read straight into a given buffer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.errors import SourceError
from frame_formats.source import Frames, FrameSource, UnreadableFrameError


class PlainFrames(FrameSource):
    """Frames one after the other in a file, each behind a header that is skipped.

    Args:
        path: the file.
        n_frames: how many are read.
        frame_shape: (y, x).
        dtype: as stored, in either byte order.
        offset: where the first frame's header begins, in bytes.
        header_nbytes: bytes before each frame.
        pixel_map: (y, x), where in the stored frame each pixel's value lies; None leaves them where they are.
    """

    def __init__(
        self,
        path: Path,
        n_frames: int,
        frame_shape: tuple[int, int],
        dtype: np.dtype[Any],
        offset: int = 0,
        header_nbytes: int = 0,
        pixel_map: Frames | None = None,
    ) -> None:
        self.path = path
        self.n_frames = n_frames
        self.frame_shape = frame_shape
        self.dtype = dtype.newbyteorder("=")
        self.singly = True
        self._stored = dtype
        self._offset = offset
        self._header = header_nbytes
        self._pixel_map = pixel_map

    @property
    def frame_nbytes(self) -> int:
        """Bytes of a frame, without its header."""
        return self.frame_shape[0] * self.frame_shape[1] * self._stored.itemsize

    def read(self, start: int, stop: int, out: Frames) -> None:
        """Read frames; see `FrameSource.read`."""
        with opened(self.path) as file:
            if self._header == 0:
                self._read_run(file, start, stop, out)
            else:
                for index in range(start, stop):
                    self._read_run(file, index, index + 1, out[index - start : index - start + 1])
        if self._stored != self.dtype:
            out.byteswap(inplace=True)
        if self._pixel_map is not None:
            for frame in out:
                frame[...] = frame.reshape(-1)[self._pixel_map]

    def _read_run(self, file: int, start: int, stop: int, out: Frames) -> None:
        begin = self._offset + start * (self._header + self.frame_nbytes) + self._header
        try:
            got = read_into(file, begin, out)
        except OSError as error:
            raise UnreadableFrameError(start, f"{self.path} cannot be read: {error.strerror or error}") from error
        if got < out.nbytes:
            index = start + got // self.frame_nbytes
            raise UnreadableFrameError(index, f"{self.path} ends in the middle of frame {index}: it was cut short")


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a file for `read_into`, by its descriptor.

    Raises:
        SourceError: it cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    try:
        yield file
    finally:
        os.close(file)


def read_into(file: int, offset: int, out: Frames) -> int:
    """Fill `out`, C-contiguous, from the bytes at `offset`; return how many there were."""
    view = out.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        got = os.preadv(file, [view[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done


def whole_frames(path: Path, offset: int, frame_nbytes: int, wanted: int | None) -> tuple[int, str]:
    """Return how many whole frames a file holds from `offset` on, and a sentence if that is not what it should be.

    Args:
        path: the file.
        offset: where the first begins, in bytes.
        frame_nbytes: of a frame with its header.
        wanted: how many there should be; None takes all that there are.
    """
    size = max(path.stat().st_size - offset, 0)
    there, rest = divmod(size, frame_nbytes)
    if wanted is None:
        if rest:
            return (
                there,
                f"{path} ends in the middle of a frame: {rest:,} bytes follow the last of {there:,} whole frames",
            )
        return there, ""
    if there < wanted:
        return there, f"{path} is cut short: {there:,} of its {wanted:,} frames are there"
    return wanted, ""
