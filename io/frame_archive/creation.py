"""Making frame archives in the default layout."""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import zarr

from frame_archive.addresses import local_path
from frame_archive.errors import ArchiveError
from frame_archive.metadata import FORMAT_NAME
from frame_archive.opening import FRAME_DTYPES
from frame_archive.own_places import require_own_or_free
from frame_archive.writer import ArchiveWriter, Compression, is_ours, refused

FORMAT_VERSION = 1
COLUMNS = ("frame_number", "frame_status", "frame_digest", "timestamp", "bunch_id")
"""Arrays with one value a frame that an archive may have."""
_OUR_ENTRIES = frozenset({"zarr.json", "frames", "dark", "pixel_mask", "truth", *COLUMNS})


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
        raise refused(location, error) from error
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


def require_room_for_archive(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Make sure that nothing is at `path`, or with `overwrite` an archive that photonflow made.

    Raises:
        ArchiveError: something is there that is not to be replaced, it is no local path, or a file is in its way.
    """
    location = Path(local_path(os.fspath(path))).absolute()
    require_own_or_free(location, overwrite, is_ours, "an archive")
    there = next(parent for parent in location.parents if os.path.lexists(parent))
    if not there.is_dir():
        raise refused(location, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))


def _make_room(location: Path, overwrite: bool) -> None:
    require_room_for_archive(location, overwrite)
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
        raise refused(location, error) from error
