"""Writing frame archives in the default layout, by one process or by many."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, Crc32cCodec

from frame_archive.addresses import local_path
from frame_archive.archive import FrameArchive
from frame_archive.chunk_writing import open_for_writing
from frame_archive.errors import ArchiveError
from frame_archive.metadata import FORMAT_NAME, is_own_archive, node_at
from frame_archive.opening import FRAME_DTYPES, open_array
from frame_archive.own_places import require_own_or_free

FORMAT_VERSION = 1
Compression = Literal["lz4", "zstd", "none"]
"""What chunks are compressed with: Blosc's LZ4 (fast) or Zstandard (smaller), or not at all."""
COLUMNS = ("frame_number", "frame_status", "frame_digest", "timestamp", "bunch_id")
"""Arrays with one value a frame that an archive may have."""
_OUR_ENTRIES = frozenset({"zarr.json", "frames", "dark", "pixel_mask", "truth", *COLUMNS})
_LEVELS = {"lz4": 5, "zstd": 3}


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
        if not _is_ours(location):
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
            rows, length = array.chunks[0], array.shape[0]
            if start % rows or (stop % rows and stop != length) or stop > length or values.shape[1:] != array.shape[1:]:
                raise ValueError(
                    f"{name} has the shape {array.shape} in chunks of {rows}: values {values.shape} do not fill whole "
                    f"chunks from row {start}"
                )
            if not np.can_cast(values.dtype, array.dtype, "equiv"):
                raise ValueError(f"{name} holds {array.dtype}, not {values.dtype}")
            whole = 0 if encoder is None else encoder.write_whole(start, values)
            if whole < len(values):
                array[start + whole : stop] = values[whole:]
        except OSError as error:
            raise _refused(Path(self.path) / name, error) from error

    def read_back(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` of the array `name` as they are stored.

        Raises:
            ArchiveError: a chunk is missing or damaged.
        """
        array = open_array(Path(self.path), name, "error")
        if array is None:
            raise ArchiveError(f"{self.path} holds no array {name}")
        return array.read_new(start, stop)

    def set_length(self, name: str, length: int) -> None:
        """Give the array `name` so many rows: those behind them are removed, those that are new are to be written.

        Raises:
            ArchiveError: the file system refuses.
        """
        try:
            array = zarr.open_array(Path(self.path) / name, mode="r+", zarr_format=3)
            array.resize((length, *array.shape[1:]))
        except OSError as error:
            raise _refused(Path(self.path) / name, error) from error

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
            raise _refused(Path(self.path), error) from error

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
            raise _refused(Path(self.path) / name, error) from error

    def add_group(self, name: str, attrs: Mapping[str, Any]) -> None:
        """Add a group, for arrays beside the frames; raises as `add_array`."""
        try:
            group = zarr.open_group(self.path, mode="r+", zarr_format=3, use_consolidated=False)
            group.create_group(name, attributes=dict(attrs))
        except OSError as error:
            raise _refused(Path(self.path) / name, error) from error

    def archive(self) -> FrameArchive:
        """Open the archive for reading."""
        return FrameArchive.open(self.path)


def create_archive(
    path: str | os.PathLike[str],
    shape: tuple[int, int, int],
    dtype: npt.DTypeLike,
    n_dark: int = 0,
    attrs: Mapping[str, Any] | None = None,
    pixel_mask: npt.NDArray[Any] | None = None,
    frames_per_chunk: int = 20,
    frame_numbers: npt.NDArray[Any] | None = None,
    overwrite: bool = False,
    compression: Compression = "lz4",
) -> ArchiveWriter:
    """Make an archive whose frames are still to be written, and return its writer.

    The layout: chunks of whole frames, Blosc-LZ4 with bitshuffle (by default), then CRC-32C, no shards, every chunk
    stored.

    Args:
        path: where; nothing may be there, unless `overwrite`.
        shape: (frame, y, x).
        dtype: uint8, uint16, uint32, int16 or int32.
        n_dark: dark frames; 0 leaves `dark` out.
        attrs: attributes of the group: detector, photon energy, exposure.
        pixel_mask: (y, x) NeXus bits, or None.
        frames_per_chunk: frames in a chunk.
        frame_numbers: (frame) the detector's own numbers, or None.
        overwrite: replace an archive that photonflow made; anything else is left alone.
        compression: of the chunks; "none" stores them as they are, with their checksum.

    Raises:
        ArchiveError: something is there already, or the place cannot be written.
        ValueError: an argument does not make sense.
    """
    location = Path(local_path(os.fspath(path))).absolute()
    pixel_type = np.dtype(dtype).newbyteorder("=")
    if pixel_type.name not in FRAME_DTYPES:
        raise ValueError(f"frames are one of {', '.join(FRAME_DTYPES)}, not {pixel_type}")
    if len(shape) != 3 or min(shape) < 1 or n_dark < 0 or frames_per_chunk < 1:
        raise ValueError(
            f"cannot make an archive of {shape} with {n_dark} darks in chunks of {frames_per_chunk} frames"
        )
    if compression not in get_args(Compression):
        raise ValueError(f"chunks are compressed with {', '.join(get_args(Compression))}, not {compression!r}")
    if pixel_mask is not None and pixel_mask.shape != shape[1:]:
        raise ValueError(f"the pixel mask has the shape {pixel_mask.shape}, the frames {shape[1:]}")
    if frame_numbers is not None and frame_numbers.shape != shape[:1]:
        raise ValueError(f"there are {len(frame_numbers)} frame numbers for {shape[0]} frames")
    _make_room(location, overwrite)
    try:
        attributes = {**(attrs or {}), "format": FORMAT_NAME, "format_version": FORMAT_VERSION}
        zarr.create_group(location, zarr_format=3, attributes=attributes)
    except OSError as error:
        raise _refused(location, error) from error
    writer = ArchiveWriter(str(location), compression)
    chunks = (frames_per_chunk, *shape[1:])
    adu = {"units": "ADU"}
    writer.add_array("frames", shape, pixel_type, chunks, ("frame", "y", "x"), adu)
    if n_dark:
        writer.add_array("dark", (n_dark, *shape[1:]), pixel_type, chunks, ("dark_frame", "y", "x"), adu)
    if pixel_mask is not None:
        meaning = {"long_name": "NeXus pixel mask: any of the low 16 bits set = masked"}
        writer.add_array("pixel_mask", shape[1:], np.uint32, shape[1:], ("y", "x"), meaning)
        writer.write("pixel_mask", 0, pixel_mask.astype(np.uint32))
    if frame_numbers is not None:
        writer.add_array("frame_number", shape[:1], np.uint64, (min(shape[0], 1 << 20),), ("frame",))
        writer.write("frame_number", 0, frame_numbers.astype(np.uint64))
    return writer


def _codecs(dtype: "np.dtype[Any]", compression: Compression) -> list[BytesBytesCodec]:
    if compression == "none":
        return [Crc32cCodec()]
    level = _LEVELS[compression]
    return [BloscCodec(cname=compression, clevel=level, shuffle="bitshuffle", typesize=dtype.itemsize), Crc32cCodec()]


def _is_ours(location: Path) -> bool:
    try:
        node = node_at(location)
    except (OSError, ValueError):
        return False
    return is_own_archive(node)


def _make_room(location: Path, overwrite: bool) -> None:
    require_own_or_free(location, overwrite, _is_ours, "an archive")
    if not os.path.lexists(location):
        return
    foreign = sorted(entry.name for entry in location.iterdir() if entry.name not in _OUR_ENTRIES)
    if foreign:
        raise ArchiveError(
            f"{location} holds {', '.join(foreign)}, which photonflow did not write, so --overwrite leaves it alone: "
            "move that elsewhere or choose another name"
        )
    try:
        shutil.rmtree(location)
    except OSError as error:
        raise _refused(location, error) from error


def _refused(location: Path, error: OSError) -> ArchiveError:
    return ArchiveError(f"{location} cannot be written: {error.strerror or error}")
