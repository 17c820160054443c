"""NPY files, and NPZ files whose arrays are stored as they are or packed."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from frame_formats.errors import SourceError, cause
from frame_formats.file_bytes import PlainFrames, whole_frames
from frame_formats.open_files import OpenFiles
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError

_ZIP_LOCAL_HEADER = 30


def open_npy(path: Path) -> OpenedSource:
    """Open an NPY file of frames (frame, y, x), or of one frame (y, x).

    Raises:
        SourceError: it is not one.
    """
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = _header(file)
            offset = file.tell()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(f"{path} is not a whole NPY file: {cause(error)}") from error
    frames = _stack(str(path), shape, dtype)
    if fortran and len(shape) == 3:
        return _open_fortran(path, shape, dtype, offset)
    n, y, x = frames
    there, ended_early = whole_frames(path, offset, y * x * dtype.itemsize, n)
    facts = SourceFacts("NPY", files=(SourceFile(path, there),), ended_early=ended_early, n_lost=n - there)
    if fortran:  # One frame, columns first.
        return OpenedSource(_FortranFrames(path, (1, y, x), dtype, offset), facts)
    return OpenedSource(PlainFrames(path, there, (y, x), dtype, offset), facts)


def _open_fortran(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> OpenedSource:
    n, y, x = shape
    if path.stat().st_size < offset + n * y * x * dtype.itemsize:
        raise SourceError(
            f"{path} is cut short, and no frame of it is whole, for it is in Fortran order: copy it again"
        )
    return OpenedSource(
        _FortranFrames(path, (n, y, x), dtype, offset), SourceFacts("NPY", files=(SourceFile(path, n),))
    )


class _FortranFrames(FrameSource):
    """Frames in Fortran order, the frame's index fastest: mapped, for no frame lies in one piece."""

    def __init__(self, path: Path, shape: tuple[int, int, int], dtype: np.dtype[Any], offset: int) -> None:
        self.path = path
        self.n_frames = shape[0]
        self.frame_shape = shape[1:]
        self.dtype = dtype.newbyteorder("=")
        self.frames_together = 64
        self._stored, self._offset = dtype, offset

    def read(self, start: int, stop: int, out: Frames) -> None:
        shape = (self.n_frames, *self.frame_shape)
        mapped = np.memmap(self.path, self._stored, "r", self._offset, shape, order="F")
        out[...] = mapped[start:stop]


def open_npz(path: Path, name: str | None) -> OpenedSource:
    """Open the array `name` of an NPZ file, or `frames`, or the only stack of frames in it.

    Raises:
        SourceError: it is not an NPZ file, or which array is meant is not clear.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            headers = {}
            for member, info in members.items():
                with archive.open(info) as file:
                    headers[member] = (*_header(file), file.tell())
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or cause(error)}") from error
    except (ValueError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{path} is not a whole NPZ file: {cause(error)}") from error
    member = chosen(str(path), name, {key: (shape, dtype) for key, (shape, _, dtype, _) in headers.items()})
    shape, fortran, dtype, header_nbytes = headers[member]
    n, y, x = _stack(f"{path}::{member}", shape, dtype)
    if fortran:
        raise SourceError(f"{path}::{member} is in Fortran order: store it in C order (np.ascontiguousarray)")
    info = members[member]
    there = min(n, max(info.file_size - header_nbytes, 0) // (y * x * dtype.itemsize))
    ended_early = f"{path}::{member} is cut short: {there:,} of its {n:,} frames are there" if there < n else ""
    facts = SourceFacts(
        "NPZ", header={"array": member}, files=(SourceFile(path, there),), ended_early=ended_early, n_lost=n - there
    )
    n = there
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as raw:
            raw.seek(info.header_offset)
            local = raw.read(_ZIP_LOCAL_HEADER)
        # The lengths of name and extra field, which may differ from those in the directory (PKWARE APPNOTE 4.3.7).
        begin = info.header_offset + _ZIP_LOCAL_HEADER + sum(np.frombuffer(local, "<u2", 2, 26).tolist())
        frames = PlainFrames(path, n, (y, x), dtype, begin + header_nbytes)
        return OpenedSource(frames, facts)
    return OpenedSource(_PackedFrames(path, info.filename, n, (y, x), dtype, header_nbytes), facts)


class _PackedFrames(FrameSource):
    """Frames of a compressed member: read on from where the last read ended, for there is no way to jump."""

    def __init__(
        self, path: Path, member: str, n: int, shape: tuple[int, int], dtype: np.dtype[Any], header: int
    ) -> None:
        self.path = path
        self.n_frames = n
        self.frame_shape = shape
        self.dtype = dtype.newbyteorder("=")
        self._member, self._stored, self._header = member, dtype, header

    def read(self, start: int, stop: int, out: Frames) -> None:
        frame_nbytes = out[0].nbytes if len(out) else 0
        try:
            stream = _stream(str(self.path), self._member)
            # zipfile's seek goes on from where it is if that is before, and else begins anew.
            stream.seek(self._header + start * frame_nbytes)
            for index, frame in enumerate(out, start):
                buffer = stream.read(frame_nbytes)
                if len(buffer) < frame_nbytes:
                    raise UnreadableFrameError(
                        index, f"{self.path} ends in the middle of frame {index}: it was cut short"
                    )
                frame[...] = np.frombuffer(buffer, self._stored).reshape(self.frame_shape)
        except (OSError, zlib.error, zipfile.BadZipFile, EOFError) as error:
            _stream.forget()
            # Only at its end is a packed array known to be whole: no frame of it can be trusted.
            raise SourceError(f"{self.path} is damaged: {cause(error)}; copy it again") from error


def _open_member(path: str, member: str) -> IO[bytes]:
    return zipfile.ZipFile(path).open(member)


_stream = OpenFiles(_open_member)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy_format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy_format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy_format.read_array_header_2_0(file)
    else:
        raise ValueError(f"it is of version {version[0]}.{version[1]}, which is for records")
    return shape, fortran, dtype


def _stack(where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int, int]:
    """Return the shape as (frame, y, x)."""
    if dtype.hasobject:
        raise SourceError(f"{where} holds Python objects, which are never loaded: store the frames as numbers")
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise SourceError(f"{where} has the shape {shape}: frames are three-dimensional, (frame, y, x)")
    n, y, x = shape if len(shape) == 3 else (1, *shape)
    return n, y, x


def chosen(path: str, name: str | None, arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> str:
    """Return which of the arrays of a file holds the frames.

    Raises:
        SourceError: it is not there, or not clear.
    """
    listed = ", ".join(f"{key} {shape} {dtype}" for key, (shape, dtype) in arrays.items())
    if name is not None:
        if name.strip("/") not in arrays:
            raise SourceError(f"{path} holds no array {name!r}: choose one of {listed or 'none'}")
        return name.strip("/")
    if "frames" in arrays:
        return "frames"
    stacks = [key for key, (shape, _) in arrays.items() if len(shape) == 3]
    if len(stacks) == 1:
        return stacks[0]
    if len(arrays) == 1:
        return next(iter(arrays))
    raise SourceError(f"{path} holds several arrays: choose one with {path}::NAME, of {listed or 'none'}")
