"""Pixel masks as small Zarr stores of their own, to be given to a run beside the archive."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from finder.pixel_bits import PixelBits, mask_attributes
from frame_archive.addresses import local_path
from frame_archive.errors import ArchiveError
from frame_archive.metadata import node_at
from frame_archive.own_places import require_own_or_free
from guarded_zarr import LocalFolder

FORMAT_NAME = "photonflow pixel mask"
"""The attribute `format` by which a mask of ours is known."""


def require_room(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Make sure that a mask may be written at `path`.

    Raises:
        ArchiveError: something is there that is not to be replaced.
    """
    location = Path(local_path(os.fspath(path)))
    require_own_or_free(location, overwrite, _is_ours, "a mask")


def write_mask(
    path: str | os.PathLike[str], mask: npt.NDArray[np.uint32], attrs: Mapping[str, Any], overwrite: bool = False
) -> None:
    """Write a Zarr v3 group with the array `pixel_mask` (y, x), NeXus bits, which `--mask` takes.

    Args:
        path: where; nothing may be there, unless `overwrite` and it is a mask that photonflow made.
        mask: (y, x) uint32.
        attrs: attributes of the group: how it came about.
        overwrite: replace a mask of ours.

    Raises:
        ArchiveError: something is there that is not to be replaced, or the place cannot be written.
    """
    require_room(path, overwrite)
    location = Path(local_path(os.fspath(path))).absolute()
    meaning = {"long_name": "pixel mask, bits as in NeXus: any of the low 16 set = masked"}
    try:
        if location.exists():
            shutil.rmtree(location)
        group = zarr.create_group(location, zarr_format=3, attributes={**attrs, "format": FORMAT_NAME})
        array = group.create_array(
            "pixel_mask",
            shape=mask.shape,
            dtype=np.uint32,
            chunks=mask.shape,
            compressors=[BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=4), Crc32cCodec()],
            dimension_names=["y", "x"],
            attributes={**meaning, **mask_attributes(~PixelBits(0))},
            config={"write_empty_chunks": True},
        )
        array[:] = mask
    except OSError as error:
        raise ArchiveError(f"{location} cannot be written: {error.strerror or error}") from error


def _is_ours(location: Path) -> bool:
    try:
        node = node_at(LocalFolder.of(location))
    except (OSError, ValueError):
        return False
    attributes = None if node is None else node.document.get("attributes")
    return isinstance(attributes, dict) and attributes.get("format") == FORMAT_NAME
