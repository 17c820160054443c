"""Which reader opens a file: by what it begins with, and by its name where that says nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_formats.errors import SourceError, cause
from frame_formats.fabio_images import open_fabio
from frame_formats.fits import open_fits
from frame_formats.hdf5 import open_hdf5
from frame_formats.natural_order import expanded, natural_key
from frame_formats.numpy_files import open_npy, open_npz
from frame_formats.sls_master import is_master, master_of
from frame_formats.sls_raw import open_sls
from frame_formats.source import OpenedSource
from frame_formats.stream import open_stream
from frame_formats.tiff import open_tiff
from frame_formats.zarr_stores import is_zarr_store, open_zarr_store

_FIRST_BYTES = 4096
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STREAMS = (".raw", ".dat", ".bin")
_BEGIN_AS_SUCH = (".npy", ".npz", ".h5", ".hdf5", ".nxs", ".cxi", ".tif", ".tiff", ".fits", ".fit", ".fts")
_FITS = re.compile(r"\.(fits|fit|fts)(\.gz|\.bz2)?$", re.IGNORECASE)
_SUFFIXES = re.compile(
    r"\.(npy|npz|h5|hdf5|hdf|nxs|cxi|tif|tiff|fits|fit|fts|cbf|edf|mccd|raw|dat|bin|zarr)(\.gz|\.bz2)?$", re.IGNORECASE
)


@dataclass(frozen=True)
class SourceOptions:
    """What files do not say of themselves.

    Args:
        shape: (y, x) of frames in a stream without headers.
        dtype: of their values.
        header_nbytes: bytes before each frame of a stream.
        file_header_nbytes: bytes at the beginning of a stream.
        pixel_map: (y, x), where in a stored frame each pixel's value lies.
        gap_pixels: put the pixels between a detector's chips and modules into the frames, masked.
    """

    shape: tuple[int, int] | None = None
    dtype: np.dtype[Any] | None = None
    header_nbytes: int = 0
    file_header_nbytes: int = 0
    pixel_map: npt.NDArray[np.integer[Any]] | None = None
    gap_pixels: bool = False


def open_source(path: Path, name: str | None = None, options: SourceOptions | None = None) -> OpenedSource:
    """Open one file of frames.

    Args:
        path: the file, or a Zarr store.
        name: the array in it, where a file has several.
        options: what the file does not say of itself.

    Raises:
        SourceError: it holds no frames that can be read.
    """
    options = options or SourceOptions()
    try:
        opened = _open(path, name, options)
    except (SourceError, MemoryError):
        raise
    except Exception as error:  # The libraries that read formats raise whatever a damaged file leads them to.
        raise SourceError(f"{path} is damaged: {cause(error)}; copy it again") from error
    if opened.frames.dtype.kind not in "iufb":
        raise SourceError(f"{path} holds {opened.frames.dtype} values: a frame is one number a pixel")
    if opened.frames.n_frames == 0:
        raise SourceError(f"{path} holds no whole frame: {opened.facts.ended_early or 'it is empty'}")
    return opened


def _open(path: Path, name: str | None, options: SourceOptions) -> OpenedSource:
    if path.is_dir():
        return open_zarr_store(path, name)
    if path.exists() and not path.is_file():
        raise SourceError(f"{path} is no file but a pipe or a device, which is not read: store what it gives in a file")
    try:
        with path.open("rb") as file:
            first = file.read(_FIRST_BYTES)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    if not first:
        raise SourceError(f"{path} is empty: copy it again, or leave it out")
    if first.startswith(b"\x93NUMPY"):
        return open_npy(path)
    if first.startswith(b"PK"):
        return open_npz(path, name)
    if first.startswith(b"\x89HDF\r\n\x1a\n"):
        return open_hdf5(path, name)
    if first.startswith(_TIFF):
        return open_tiff(path)
    if _is_fits(path, first):
        return open_fits(path, name)
    if is_master(path):
        return open_sls(path, options.gap_pixels, options.pixel_map)
    if options.shape is not None or options.pixel_map is not None or path.suffix.lower() in _STREAMS:
        return open_stream(path, options)
    if path.suffix.lower() in _BEGIN_AS_SUCH:
        raise SourceError(
            f"{path} is of no format that is known here: it does not begin as a whole {path.suffix} file does, so copy "
            "it again"
        )
    return open_fabio(path)


def _is_fits(path: Path, first: bytes) -> bool:
    packed = first.startswith((b"\x1f\x8b", b"BZ")) and _FITS.search(path.name) is not None
    return first.startswith(b"SIMPLE  =") or packed


def files_meant(
    addresses: Sequence[str], on_repeat: Callable[[Path], object] = lambda path: None
) -> list[tuple[Path, str | None]]:
    """Return the files that addresses mean, in order, each once: patterns and folders are expanded in natural order.

    Args:
        addresses: files, folders, patterns, Zarr stores; ``PATH::NAME`` names an array in one.
        on_repeat: told of each file that is named again.

    Raises:
        SourceError: one of them is not there, or a folder holds no file of frames.
    """
    found: list[tuple[Path, str | None]] = []
    for path, name in expanded(addresses):
        if path.is_dir() and not is_zarr_store(path):
            found += [(each, name) for each in _frames_in(path)]
        else:
            found.append((path, name))
    # The data files of a detector's `.raw` format are found by their master file.
    meant: dict[tuple[Path, str | None], Path] = {}
    for path, name in found:
        first = meant.setdefault((master_of(path) or path, name), path)
        if first is not path and first == path:
            on_repeat(path)
    return list(meant)


def _frames_in(folder: Path) -> list[Path]:
    masters = sorted((each for each in folder.iterdir() if is_master(each)), key=lambda p: natural_key(p.name))
    if masters:
        return masters
    inside = sorted(
        (each for each in folder.iterdir() if _SUFFIXES.search(each.name)), key=lambda p: natural_key(p.name)
    )
    if not inside:
        raise SourceError(f"{folder} holds no file of frames: give the files themselves")
    kinds = sorted({each.suffix for each in inside})
    if len(kinds) > 1:
        raise SourceError(
            f"{folder} holds files of several kinds ({', '.join(kinds)}): give a pattern, {folder}/*{kinds[0]}"
        )
    return inside
