"""HDF5 files, open for reading, also while somebody writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from frame_formats.errors import SourceError, cause
from frame_formats.libraries import library
from frame_formats.open_files import OpenFiles


@contextmanager
def reading(path: str) -> Iterator[Any]:
    """Open an HDF5 file for as long as the context lasts.

    Raises:
        SourceError: it cannot be opened.
    """
    try:
        file = _open(path)
    except OSError as error:
        raise SourceError(_why_not(path, error)) from error
    with file:
        yield file


def _open(path: str) -> Any:
    h5py = library("h5py", f"{path} is HDF5, which")
    # Importing it registers its filters; plain files do without.
    with suppress(SourceError):
        library("hdf5plugin", "HDF5 with compression")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        # A writer that works in SWMR mode lets in only who says that he knows.
        try:
            return h5py.File(path, "r", libver="latest", swmr=True)
        except OSError:
            raise error from None


opened = OpenFiles(_open)


def _why_not(path: str, error: OSError) -> str:
    said = cause(error)
    if "truncated file" in said:
        return f"{path} is cut short, and HDF5 does not open what is left of it: copy it again ({said})"
    if "lock" in said or "already open for write" in said:
        return f"{path} is being written, and not in SWMR mode: wait for its writer, or copy it first ({said})"
    if "signature not found" in said:
        return f"{path} is not an HDF5 file, whatever its name says"
    return f"{path} cannot be read: {said}"
