"""Pixel masks that are given beside an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frame_archive import FrameArchive

Mask = npt.NDArray[np.uint32]
_NAMES = ("pixel_mask", "mask")


def combined_mask(wanted: str | npt.NDArray[Any] | None, archive: FrameArchive) -> Mask | None:
    """The archive's own mask together with the one that is wanted: a pixel that either of them masks is masked.

    Args:
        wanted: NeXus bits or bool (y, x), or the path of an NPY file, of an NPZ file or Zarr group with ``pixel_mask``
            or ``mask``, or of a Zarr array; None is the archive's own mask alone.
        archive: The archive to be processed.

    Raises:
        ValueError: The mask can't be read or is of another shape.
    """
    if wanted is None:
        return archive.pixel_mask
    origin = wanted if isinstance(wanted, str) else "the mask given in Python"
    mask = _load(wanted) if isinstance(wanted, str) else np.asarray(wanted)
    if mask.dtype.kind not in "bui":
        raise ValueError(f"--mask {origin} holds {mask.dtype} values: a mask is bool or integer, 0 for a good pixel")
    if mask.shape != archive.frame_shape:
        raise ValueError(
            f"--mask {origin} is of shape {mask.shape}, and the frames of {archive.address.path} are "
            f"{archive.frame_shape}: give a mask of the same detector"
        )
    bits = mask.astype(np.uint32)
    return bits if archive.pixel_mask is None else bits | archive.pixel_mask


def _load(path: str) -> npt.NDArray[Any]:
    if not Path(path).exists():
        raise ValueError(f"--mask {path}: there is no such file or folder")
    try:
        return _from_zarr(path) if Path(path).is_dir() else _from_numpy(path)
    except Exception as error:  # NumPy's and zarr's parsers raise whatever a damaged file leads them to.
        raise ValueError(
            f"--mask {path} is no NPY file, no NPZ file or Zarr group with `pixel_mask`, and no Zarr array: "
            "np.save(path, mask) writes one that is"
        ) from error


def _from_numpy(path: str) -> npt.NDArray[Any]:
    # NumPy leaves a file open that it can't read, so it is opened here.
    with Path(path).open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        name = next((name for name in _NAMES if name in loaded.files), _NAMES[0])
        plane: npt.NDArray[Any] = loaded[name]
        return plane


def _from_zarr(path: str) -> npt.NDArray[Any]:
    node: Any = zarr.open(path, mode="r")
    if isinstance(node, zarr.Group):
        node = node[next((name for name in _NAMES if name in node), _NAMES[0])]
    return np.asarray(node[...])
