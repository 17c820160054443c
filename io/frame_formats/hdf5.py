"""HDF5 and NeXus: datasets of frames, also behind external links, in virtual datasets, and in files that still grow."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.errors import SourceError, cause
from frame_formats.hdf5_extent import Stack, whole_frames
from frame_formats.hdf5_facts import facts_of
from frame_formats.hdf5_files import opened, reading
from frame_formats.hdf5_layout import Place, places_of_frames
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFile, UnreadableFrameError


def open_hdf5(path: Path, name: str | None) -> OpenedSource:
    """Open the frames of an HDF5 file.

    Args:
        path: the file: a master file leads to its data files.
        name: the dataset; None looks where frames usually are.

    Raises:
        SourceError: there are none, or not in one shape and type.
    """
    with reading(str(path)) as file:
        places = places_of_frames(path, file, name)
        stacks: list[Stack] = []
        kind: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        together = 1
        lost_from = ""
        for place in places:
            if place.missing:
                lost_from = lost_from or place.missing
                continue
            with reading(str(place.path)) as of_place:
                dataset = _dataset(place, of_place)
                this = (dataset.shape[1:] if dataset.ndim > 2 else dataset.shape, dataset.dtype.newbyteorder("="))
                if kind is not None and this != kind:
                    raise SourceError(
                        f"{place.path}::{place.name} holds frames of {this[0]} {this[1]}, and those before are of "
                        f"{kind[0]} {kind[1]}: they are not of one run"
                    )
                kind = this
                together = max(together, dataset.chunks[0] if dataset.chunks and dataset.ndim > 2 else 1)
                if lost_from:
                    continue
                stack = whole_frames(place, dataset)
            stacks.append(stack)
            lost_from = stack.why
        if kind is None:
            raise SourceError(f"no frames can be read: {lost_from or f'{path} holds none'}")
        shape = (prod(kind[0][:-1]), kind[0][-1])
        frames = _Datasets(path, stacks, shape, kind[1], together, kind[0])
        facts = facts_of(path, file, [stack.place for stack in stacks], [stack.n_frames for stack in stacks], shape)
    files: dict[Path, int] = {}
    for stack in stacks:
        files[stack.place.path] = files.get(stack.place.path, 0) + stack.n_frames
    listed = tuple(SourceFile(each, n) for each, n in files.items())
    return OpenedSource(frames, facts).with_facts(
        files=listed, ended_early=lost_from, n_lost=sum(stack.n_lost for stack in stacks)
    )


class _Datasets(FrameSource):
    """The frames of datasets that follow each other; modules of a fourth dimension are put below each other."""

    def __init__(
        self,
        path: Path,
        stacks: list[Stack],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        together: int,
        stored_shape: tuple[int, ...],
    ) -> None:
        self.path = path
        self.n_frames = sum(stack.n_frames for stack in stacks)
        self.frame_shape = shape
        self.dtype = dtype
        self.frames_together = together
        self._stacks = [(str(stack.place.path), stack.place.name, stack.n_frames) for stack in stacks]
        self._stored_shape = stored_shape

    def read(self, start: int, stop: int, out: Frames) -> None:
        first = 0
        for path, name, n in self._stacks:
            a, b = max(start, first), min(stop, first + n)
            if a < b:
                into = out[a - start : b - start].reshape(b - a, *self._stored_shape)
                self._read_dataset(path, name, a - first, b - first, into, a)
            first += n

    def _read_dataset(self, path: str, name: str, start: int, stop: int, out: Frames, index: int) -> None:
        try:
            self._select(path, name, start, stop, out)
        except Exception as error:
            opened.forget()
            for row in range(start, stop):  # Which of them it is, HDF5 does not say.
                try:
                    self._select(path, name, row, row + 1, out[row - start : row - start + 1])
                except Exception as of_row:
                    why = f"frame {row} of {path}::{name} cannot be read: {_explained(of_row)}"
                    raise UnreadableFrameError(index + row - start, why) from of_row
            raise UnreadableFrameError(index, f"{path}::{name} cannot be read: {_explained(error)}") from error

    @staticmethod
    def _select(path: str, name: str, start: int, stop: int, out: Frames) -> None:
        dataset = opened(path)[name]
        if dataset.ndim == 2:
            dataset.read_direct(out[0])
        else:
            dataset.read_direct(out, np.s_[start:stop])


def _explained(error: BaseException) -> str:
    said = cause(error)
    if "filter" in said or "plugin" in said:
        return f"{said} (its compression needs hdf5plugin: pip install 'photonflow[formats]')"
    return said


def _dataset(place: Place, file: Any) -> Any:
    try:
        dataset = file[place.name]
    except KeyError as error:
        raise SourceError(f"{place.path} holds no dataset {place.name!r}: check the file that links to it") from error
    if not hasattr(dataset, "shape") or dataset.ndim not in (2, 3, 4) or 0 in dataset.shape[1:]:
        shape = getattr(dataset, "shape", "no shape: it is a group")
        raise SourceError(f"{place.path}::{place.name} has the shape {shape}: frames are (frame, y, x)")
    return dataset
