"""Writing a frame archive's arrays, by one process or by many."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec

from frame_archive.addresses import local_path
from frame_archive.archive import FrameArchive
from frame_archive.chunk_writing import ReadRows, open_for_writing, remove_halves
from frame_archive.errors import ArchiveError
from frame_archive.kept_memory import KeptMemory
from frame_archive.metadata import is_own_archive, node_at
from frame_archive.opening import open_array
from guarded_zarr import LocalFolder

Compression = Literal["lz4", "zstd", "none"]
"""What chunks are compressed with: Blosc's LZ4 (fast) or Zstandard (smaller), or not at all."""
# Blosc's levels. LZ4 at 5 packs noise of 5 ADU 2 % smaller than at 1, frames of a Jungfrau 0.5 %, and takes up to a
# tenth longer.
_LEVELS = {"lz4": 1, "zstd": 3}


@dataclass(frozen=True)
class ArchiveWriter:
    """A frame archive open for writing: pickles, so that many workers write their own chunks at once.

    Frames are written in whole chunks: a worker that writes frames [start, start + n) owns the chunks they lie in.

    Attributes:
        path: the absolute path of the archive.
        compression: of the arrays that are added.
    """

    path: str
    compression: Compression = "lz4"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "ArchiveWriter":
        """Open an archive that `create_archive` made.

        Raises:
            ArchiveError: it is not one.
        """
        location = Path(local_path(os.fspath(path))).absolute()
        if not is_ours(location):
            raise ArchiveError(f"{location} is not an archive that photonflow made: create one with create_archive")
        return cls(str(location))

    def write_frames(self, start: int, frames: npt.NDArray[Any]) -> None:
        """Write frames (frame, y, x) from position `start`.

        Raises:
            ValueError: they do not start and end where chunks do, or do not fit the archive.
            ArchiveError: the file system refuses.
        """
        self.write("frames", start, frames)

    def write_dark(self, start: int, frames: npt.NDArray[Any]) -> None:
        """Write dark frames (dark_frame, y, x) from position `start`; raises as `write_frames`."""
        self.write("dark", start, frames)

    def write(self, name: str, start: int, values: npt.NDArray[Any]) -> None:
        """Write `values` into the array `name` from row `start`, whole chunks; raises as `write_frames`."""
        try:
            array, encoder = open_for_writing(Path(self.path) / name)
            stop = start + len(values)
            _require_whole_chunks(array, name, start, values.shape)
            if not np.can_cast(values.dtype, array.dtype, "equiv"):
                raise ValueError(f"{name} holds {array.dtype}, not {values.dtype}")
            whole = 0 if encoder is None else encoder.write_whole(start, values)
            if whole < len(values):
                array[start + whole : stop] = values[whole:]
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error

    def write_as_read(self, name: str, start: int, stop: int, read: ReadRows, rows_at_once: int) -> None:
        """Write rows `start` to `stop` of the array `name`, whole chunks, while they are read.

        Args:
            name: of the array.
            start: the first row, where a chunk begins.
            stop: one past the last.
            read: fills its third argument with rows from the first to the second; called for one piece after the other.
            rows_at_once: of a piece.

        Raises:
            ValueError: as `write_frames`, and what `read` raises: what was written of its chunk is gone then.
            ArchiveError: the file system refuses.
        """
        try:
            array, encoder = open_for_writing(Path(self.path) / name)
            rows, plane = array.chunks[0], array.shape[1:]
            _require_whole_chunks(array, name, start, (stop - start, *plane))
            if encoder is not None and encoder.takes_pieces and rows_at_once < rows:
                for number in range(start // rows, stop // rows):
                    encoder.write_as_read(number, read, rows_at_once)
                start = stop // rows * rows
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error
        dtype = array.dtype.newbyteorder("=")
        values = _rows((stop - start) * prod(plane) * dtype.itemsize).view(dtype).reshape(stop - start, *plane)
        for first in range(start, stop, rows_at_once):
            last = min(first + rows_at_once, stop)
            read(first, last, values[first - start : last - start])
        self.write(name, start, values)

    def read_back(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` of the array `name` as they are stored, in memory that the next call takes.

        Raises:
            ArchiveError: a chunk is missing or damaged.
        """
        array = open_array(LocalFolder.of(self.path), name, "error")
        if array is None:
            raise ArchiveError(f"{self.path} holds no array {name}")
        shape = (stop - start, *array.array.shape[1:])
        values = _rows(prod(shape) * array.dtype.itemsize).view(array.dtype).reshape(shape)
        array.read(start, stop, values)
        return values

    def remove_halves(self, name: str) -> None:
        """Remove what killed writers have left of chunks of the array `name`; nobody may be writing it.

        Raises:
            ArchiveError: the file system refuses.
        """
        try:
            remove_halves(Path(self.path) / name)
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error

    def set_length(self, name: str, length: int) -> None:
        """Give the array `name` so many rows: those behind them are removed, those that are new are to be written.

        Raises:
            ArchiveError: the file system refuses.
        """
        try:
            array = zarr.open_array(Path(self.path) / name, mode="r+", zarr_format=3)
            array.resize((length, *array.shape[1:]))
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error

    def attrs(self) -> dict[str, Any]:
        """Return the archive's attributes."""
        return dict(zarr.open_group(self.path, mode="r", zarr_format=3, use_consolidated=False).attrs)

    def set_attrs(self, attrs: Mapping[str, Any], of: str = "") -> None:
        """Set attributes of the archive, or of the array `of`; others stay.

        Raises:
            ArchiveError: the file system refuses.
        """
        try:
            if of:
                zarr.open_array(Path(self.path) / of, mode="r+", zarr_format=3).attrs.update(dict(attrs))
            else:
                group = zarr.open_group(self.path, mode="r+", zarr_format=3, use_consolidated=False)
                group.attrs.update(dict(attrs))
        except OSError as error:
            raise refused(Path(self.path), error) from error

    def add_array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        chunks: tuple[int, ...],
        dimension_names: Sequence[str],
        attrs: Mapping[str, Any] | None = None,
        fill_value: Any = 0,
        overwrite: bool = False,
    ) -> None:
        """Add an array in the archive's codecs, to be filled by `write`; `overwrite` replaces one of that name.

        Raises:
            ArchiveError: the file system refuses.
        """
        try:
            group = zarr.open_group(self.path, mode="r+", zarr_format=3, use_consolidated=False)
            group.create_array(
                name,
                shape=shape,
                dtype=np.dtype(dtype),
                chunks=tuple(max(1, side) for side in chunks),
                compressors=_codecs(np.dtype(dtype), self.compression),
                dimension_names=list(dimension_names),
                attributes=dict(attrs or {}),
                fill_value=fill_value,
                overwrite=overwrite,
                config={"write_empty_chunks": True},
            )
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error

    def add_group(self, name: str, attrs: Mapping[str, Any]) -> None:
        """Add a group, for arrays beside the frames; raises as `add_array`."""
        try:
            group = zarr.open_group(self.path, mode="r+", zarr_format=3, use_consolidated=False)
            group.create_group(name, attributes=dict(attrs))
        except OSError as error:
            raise refused(Path(self.path) / name, error) from error

    def archive(self) -> FrameArchive:
        """Open the archive for reading."""
        return FrameArchive.open(self.path)


_rows = KeptMemory()


def _require_whole_chunks(array: "zarr.Array[Any]", name: str, start: int, shape: tuple[int, ...]) -> None:
    rows, length, stop = array.chunks[0], array.shape[0], start + shape[0]
    if start % rows or (stop % rows and stop != length) or stop > length or shape[1:] != array.shape[1:]:
        raise ValueError(
            f"{name} has the shape {array.shape} in chunks of {rows}: values {shape} do not fill whole chunks from row "
            f"{start}"
        )


def _codecs(dtype: "np.dtype[Any]", compression: Compression) -> list[BytesBytesCodec]:
    if compression == "none":
        return [Crc32cCodec()]
    level = _LEVELS[compression]
    return [BloscCodec(cname=compression, clevel=level, shuffle="bitshuffle", typesize=dtype.itemsize), Crc32cCodec()]


def is_ours(location: Path) -> bool:
    """Whether photonflow made the archive there."""
    try:
        node = node_at(LocalFolder.of(location))
    except (OSError, ValueError):
        return False
    return is_own_archive(node)


def refused(location: Path, error: OSError) -> ArchiveError:
    """Return what to raise where the file system does not take what is written."""
    return ArchiveError(f"{location} cannot be written: {error.strerror or error}")
