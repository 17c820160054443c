"""Pixel masks that are given beside an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_archive import ArchiveError, FrameArchive, find_plane
from guarded_zarr import RefusedError
from object_stores import is_url
from pipeline.inputs.locations import is_there
from pipeline.inputs.numpy_files import Check, UnsafePlaneError, read_numpy

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
    bits = read_mask(wanted, archive.frame_shape, f"the frames of {archive.address.path}")
    return bits if archive.pixel_mask is None else bits | archive.pixel_mask


def read_mask(wanted: str | npt.NDArray[Any], frame_shape: tuple[int, int], frames: str) -> Mask:
    """A mask (y, x) as NeXus bits.

    Args:
        wanted: As in :func:`combined_mask`.
        frame_shape: What its shape has to be.
        frames: Whose that is, in words: "the frames of …".

    Raises:
        ValueError: The mask can't be read or is of another shape.
    """
    origin = wanted if isinstance(wanted, str) else "the mask given in Python"

    def check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "bui":
            raise _UnfitError(f"--mask {origin} holds {dtype} values: a mask is bool or integer, 0 for a good pixel")
        if shape != frame_shape:
            raise _UnfitError(
                f"--mask {origin} is of shape {shape}, and {frames} are {frame_shape}: give a mask of the same detector"
            )

    if isinstance(wanted, str):
        mask = _load(wanted, check)
    else:
        mask = np.asarray(wanted)
        check(mask.shape, mask.dtype)
    return mask.astype(np.uint32)


class _UnfitError(ValueError):
    """A mask that can be read and does not fit."""


def _load(path: str, check: Check) -> npt.NDArray[Any]:
    if not is_there(path):
        raise ValueError(f"--mask {path}: there is no such file or folder")
    try:
        is_zarr = is_url(path) or Path(path).is_dir()
        return _from_zarr(path, check) if is_zarr else read_numpy(path, _NAMES, check)
    except _UnfitError:
        raise
    except (ArchiveError, UnsafePlaneError, RefusedError) as error:
        raise ValueError(f"--mask {path}: {error}") from error
    except Exception as error:  # NumPy's parsers raise whatever a damaged file leads them to.
        raise ValueError(
            f"--mask {path} is no NPY file, no NPZ file or Zarr group with `pixel_mask`, and no Zarr array: "
            "np.save(path, mask) writes one that is"
        ) from error


def _from_zarr(path: str, check: Check) -> npt.NDArray[Any]:
    # zarr's own writer leaves out chunks of zeros, and a mask is mostly zeros.
    stored = find_plane(path, _NAMES, missing_chunks="fill")
    if stored is None:
        raise ArchiveError(f"there is no array {' or '.join(map(repr, _NAMES))} in it")
    check(stored.array.shape, stored.dtype)
    return stored.read_new(0, stored.array.shape[0])
