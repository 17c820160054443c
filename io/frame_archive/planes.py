"""Planes (y, x) and columns (frame) in Zarr stores of anybody's: a mask or a pedestal, what is known of each frame."""

import os
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from frame_archive.addresses import location_of
from frame_archive.opening import open_array, root_node
from frame_archive.stored_array import MissingChunks, StoredArray
from guarded_zarr import store_folder


def find_plane(
    path: str | os.PathLike[str], names: Sequence[str], missing_chunks: MissingChunks = "error"
) -> StoredArray | None:
    """Return the first array of `names` in the Zarr group at `path`, or the array that lies there itself.

    Args:
        path: of a Zarr store, v2 or v3, or its address.
        names: of the array; none of them is asked for where `path` itself is an array.
        missing_chunks: what a missing chunk is: an "error", or its fill value ("fill").

    Returns:
        The array, of which nothing but its metadata has been read; None if the group has none of them.

    Raises:
        ArchiveError: it is no Zarr store, or it is damaged or stored with a codec that makes objects.
    """
    folder = store_folder(location_of(os.fspath(path)))
    if root_node(folder).kind == "array":
        return open_array(folder, "", missing_chunks)
    for name in names:
        array = open_array(folder, name, missing_chunks)
        if array is not None:
            return array
    return None


def find_column(path: str | os.PathLike[str], name: str, length: int) -> npt.NDArray[Any] | None:
    """Return the values of the array `name`, (frame), of the Zarr store at `path`; None if there is none so long.

    Raises:
        ArchiveError: it is damaged.
    """
    array = open_array(store_folder(location_of(os.fspath(path))), name, "error")
    return None if array is None or array.array.shape != (length,) else array.read_new(0, length)
