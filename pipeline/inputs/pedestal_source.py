"""Where a run's pedestal comes from: dark frames to be trained on, or a pedestal that is ready."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cluster_store import dataset_status, read_pedestal
from finder import Pedestal
from frame_archive import ArchiveAddress, ArchiveError, FrameArchive, find_plane, location_of
from guarded_zarr import RefusedError
from object_stores import is_url
from pipeline.inputs.locations import is_there
from pipeline.inputs.numpy_files import Check, UnsafePlaneError, read_numpy


@dataclass(frozen=True)
class DarkFrames:
    """Dark frames ``[0, n_frames)`` of an array of an archive, to be trained on.

    Args:
        address: The archive.
        array: Its ``dark`` frames, or its first ``frames``.
        n_frames: How many.
    """

    address: ArchiveAddress
    array: Literal["dark", "frames"]
    n_frames: int

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Dark frames ``[start, stop)`` as (dark_frame, y, x)."""
        archive = self.address.open()
        if self.array == "dark":
            return archive.read_dark(start, stop)
        frames = np.empty((stop - start, *archive.frame_shape), archive.dtype)
        archive.read(start, stop, frames)
        return frames

    def __str__(self) -> str:
        which = "dark frames" if self.array == "dark" else "first frames"
        return f"{self.n_frames} {which} of {self.address.path}"


@dataclass(frozen=True)
class ReadyPedestal:
    """A pedestal that needs no training.

    Args:
        pedestal: The pedestal.
        origin: Where it is from, for the dataset's attributes.
    """

    pedestal: Pedestal
    origin: str

    def __str__(self) -> str:
        return self.origin


PedestalSource = DarkFrames | ReadyPedestal


def find_pedestal(wanted: str | Pedestal | None, archive: FrameArchive, n_samples: int) -> PedestalSource:
    """Find out what a run's pedestal is to come from, and that it fits the archive.

    Args:
        wanted: None: the archive's dark frames. ``first:N``: its first N frames. A path: another archive with dark
            frames, an earlier output, or an NPZ file or Zarr group with ``mean`` and ``noise`` (y, x) in ADU.
        archive: The archive to be processed.
        n_samples: Memory of the running pedestal.

    Raises:
        ValueError: There is none, or it doesn't fit; the message says which path and what to do.
    """
    if isinstance(wanted, Pedestal):
        source: PedestalSource = ReadyPedestal(wanted, "a pedestal given in Python")
    elif wanted is None:
        source = _darks(
            archive, f"{archive.address.path} has no dark frames: give --pedestal PATH, or --pedestal first:N"
        )
    elif wanted.startswith("first:"):
        source = DarkFrames(archive.address, "frames", _count_of_first(wanted, archive))
    else:
        source = _from_path(wanted, archive, n_samples)
    _check(source, archive, n_samples)
    return source


def _darks(archive: FrameArchive, otherwise: str) -> DarkFrames:
    if archive.dark is None:
        raise ValueError(otherwise)
    return DarkFrames(archive.address, "dark", archive.n_dark)


def _count_of_first(wanted: str, archive: FrameArchive) -> int:
    match = re.fullmatch(r"first:(\d+)", wanted)
    if match is None:
        raise ValueError(f"--pedestal {wanted}: write first:N with a number of frames, such as first:1000")
    n_frames = int(match[1])
    if n_frames >= archive.n_frames:
        raise ValueError(
            f"--pedestal {wanted} leaves no frame to process: {archive.address.path} has {archive.n_frames} frames"
        )
    return n_frames


def _from_path(path: str, archive: FrameArchive, n_samples: int) -> PedestalSource:
    if not is_there(path):
        raise ValueError(f"--pedestal {path}: there is no such file or folder")
    if not is_url(path) and not Path(path).is_dir():
        return ReadyPedestal(_from_npz(path, archive.frame_shape, n_samples), path)
    if dataset_status(path) not in ("absent", "foreign"):
        return ReadyPedestal(read_pedestal(path), f"the pedestal of {path}")
    planes = _mean_and_noise_of_group(path, archive.frame_shape)
    if planes is not None:
        return ReadyPedestal(_from_planes(path, *planes, n_samples), path)
    other = ArchiveAddress(location_of(path)).open()
    return _darks(other, f"--pedestal {path} has neither dark frames nor arrays `mean` and `noise`")


def _from_npz(path: str, shape: tuple[int, int], n_samples: int) -> Pedestal:
    try:
        mean, noise = (read_numpy(path, [name], _check_plane(path, name, shape)) for name in ("mean", "noise"))
    except _UnfitError:
        raise
    except (UnsafePlaneError, RefusedError) as error:
        raise ValueError(f"--pedestal {path}: {error}") from error
    except Exception as error:  # NumPy's parsers raise whatever a damaged file leads them to.
        raise ValueError(
            f"--pedestal {path} is no NPZ file with arrays `mean` and `noise` (y, x) in ADU: "
            "np.savez(path, mean=mean, noise=noise) writes one"
        ) from error
    return _from_planes(path, mean, noise, n_samples)


class _UnfitError(ValueError):
    """A plane that can be read and does not fit."""


def _check_plane(path: str, name: str, wanted: tuple[int, int]) -> Check:
    def check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "iuf":
            raise _UnfitError(f"--pedestal {path}: `{name}` holds {dtype} values, and numbers in ADU are needed")
        if shape != wanted:
            raise _UnfitError(
                f"--pedestal {path}: `{name}` is of shape {shape}, and the frames are {wanted}: give one of the same "
                "detector"
            )

    return check


def _mean_and_noise_of_group(path: str, shape: tuple[int, int]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    try:
        stored = [find_plane(path, [name]) for name in ("mean", "noise")]
        planes = []
        for name, plane in zip(("mean", "noise"), stored, strict=True):
            if plane is None or not plane.array.path:  # a bare array may be anything
                return None
            _check_plane(path, name, shape)(plane.array.shape, plane.dtype)
            planes.append(plane.read_new(0, shape[0]))
    except ArchiveError as error:
        raise ValueError(f"--pedestal {path}: {error}") from error
    return planes[0], planes[1]


def _from_planes(path: str, mean: npt.NDArray[Any], noise: npt.NDArray[Any], n_samples: int) -> Pedestal:
    try:
        return Pedestal.from_mean_and_noise(mean, noise, n_samples)
    except (ValueError, TypeError) as error:
        raise ValueError(f"--pedestal {path}: {error}") from error


def _check(source: PedestalSource, archive: FrameArchive, n_samples: int) -> None:
    if isinstance(source, DarkFrames):
        darks = source.address.open()
        shape = darks.frame_shape
        _require_same_packing(source, darks, archive)
        if source.n_frames < 2:
            raise ValueError(
                f"a pedestal can't be trained on {source}: it takes at least 2, and a few hundred to be good"
            )
    else:
        shape = source.pedestal.shape
        if source.pedestal.n_samples != n_samples:
            raise ValueError(
                f"{source} was made for n_samples {source.pedestal.n_samples}, and this run's is {n_samples}: "
                f"give --n-samples {source.pedestal.n_samples}"
            )
    if shape != archive.frame_shape:
        raise ValueError(
            f"the pedestal ({source}) is of {shape[0]}x{shape[1]} pixels, and the frames of {archive.address.path} "
            f"are {archive.frame_shape[0]}x{archive.frame_shape[1]}: give one of the same detector"
        )


def _require_same_packing(source: DarkFrames, darks: FrameArchive, archive: FrameArchive) -> None:
    """Values are read as stored, so darks packed with another scale or offset would be those of another detector."""
    array = darks.dark if source.array == "dark" else darks.frames
    assert array is not None
    for name, plain in (("scale_factor", 1), ("add_offset", 0)):
        of_darks, of_frames = (stored.attrs.get(name, plain) for stored in (array, archive.frames))
        if of_darks != of_frames:
            raise ValueError(
                f"the darks ({source}) are packed with {name} {of_darks!r:.40}, and the frames of "
                f"{archive.address.path} with {of_frames!r:.40}, and values are read as stored: give darks stored like "
                "the frames"
            )
