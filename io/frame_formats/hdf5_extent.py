"""How many frames of an HDF5 dataset are there: what was never written, or is gone, would read as fill values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.hdf5_files import reading
from frame_formats.hdf5_layout import Place


@dataclass(frozen=True)
class Stack:
    """The frames of one dataset that are there.

    Args:
        place: the dataset.
        n_frames: that are whole.
        n_lost: that should be there and are not.
        why: a sentence that says so.
    """

    place: Place
    n_frames: int
    n_lost: int = 0
    why: str = ""


def whole_frames(place: Place, dataset: Any) -> Stack:
    """Return how many frames come before the first that is not there.

    Args:
        place: of the dataset.
        dataset: open, an `h5py.Dataset`.

    Raises:
        SourceError: a file that it is made of cannot be opened.
    """
    n = 1 if dataset.ndim == 2 else int(dataset.shape[0])
    there, why = n, ""
    if dataset.is_virtual:
        there, why = _whole_virtual(place, dataset, n)
    elif dataset.chunks is not None:
        there = _stored_rows(dataset, n)
    elif dataset.id.get_offset() is None and not dataset.external and dataset.id.get_storage_size() == 0:
        there = 0
    if there < n and not why:
        why = (
            f"{place.path}::{place.name} has room for {n:,} frames, and the first {there:,} were written: "
            "it was not finished, or is still being written"
        )
    return Stack(place, there, n - there, why)


def _stored_rows(dataset: Any, n: int) -> int:
    chunks = [-(-side // chunk) for side, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    if dataset.id.get_num_chunks() >= prod(chunks):
        return n
    if dataset.ndim == 2:
        return 0
    # Not as many as the dataset claims: no more rows of chunks can be whole than there are chunks.
    rows, counts = dataset.chunks[0], np.zeros(min(chunks[0], dataset.id.get_num_chunks() + 1), np.int64)

    def count(info: Any) -> None:
        # A dataset that was made smaller keeps some chunks beyond its end.
        if info.chunk_offset[0] // rows < len(counts):
            counts[info.chunk_offset[0] // rows] += 1

    dataset.id.chunk_iter(count)
    is_short = counts < prod(chunks[1:])
    return min(int(np.argmax(is_short)) * rows, n) if is_short.any() else n


def _whole_virtual(place: Place, dataset: Any, n: int) -> tuple[int, str]:
    mapped, there = np.zeros(n, np.int64), np.zeros(n, np.int64)
    reasons: dict[int, str] = {}
    for source in dataset.virtual_sources():
        first, stop = _rows(source.vspace, n) if dataset.ndim > 2 else (0, 1)
        pixels = source.vspace.get_select_npoints() // max(stop - first, 1)
        found, why = _found(place, source, stop - first)
        mapped[first:stop] += pixels
        there[first : first + found] += pixels
        if why:
            reasons.setdefault(first + found, why)
    # Pixels that no frame has, such as gaps between modules, are no loss.
    lacking = (there < mapped) | (mapped == 0)
    if not lacking.any():
        return n, ""
    first = int(np.argmax(lacking))
    return first, reasons.get(first, f"nothing leads from {place.path}::{place.name} to its frame {first}")


def _found(place: Place, source: Any, n_rows: int) -> tuple[int, str]:
    """How many of the rows that a virtual dataset takes from a source are there, and why not all."""
    where = place.path if source.file_name == "." else place.path.parent / source.file_name
    said = f"{where}::{source.dset_name}, which {place.path} is made of,"
    if not where.exists():
        return 0, f"{where}, which {place.path} is made of, is not there"
    with reading(str(where)) as file:
        target = file.get(source.dset_name)
        if target is None:
            return 0, f"{said} is not there"
        if target.ndim < 3:
            return n_rows, ""
        stack = whole_frames(Place(Path(where), source.dset_name), target)
        first, _ = _rows(source.src_space, target.shape[0])
        if stack.n_frames - first < n_rows:
            return max(stack.n_frames - first, 0), stack.why or f"{said} has only {stack.n_frames} frames"
    return n_rows, ""


def _rows(space: Any, n: int) -> tuple[int, int]:
    try:
        bounds = space.get_select_bounds()
    except ValueError:  # All of it is selected.
        return 0, n
    return int(bounds[0][0]), min(int(bounds[1][0]) + 1, n)
