"""Sources put together as one run: one order, one numbering, one mask, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_archive import FRAME_DTYPES
from frame_formats.converting import AsType
from frame_formats.errors import SourceError
from frame_formats.numbering import Numbering
from frame_formats.series import FrameSeries, Reordered
from frame_formats.source import FrameSource, FrameStatus, OpenedSource, SourceFile


@dataclass(frozen=True)
class Gathered:
    """The frames of all sources, in order.

    Args:
        frames: (frame, y, x).
        formats: the names of their formats.
        frame_numbers: (frame) uint64, or None where no source has any and none is missing.
        frame_status: (frame) uint8, bits of `FrameStatus`, or None likewise.
        columns: other values of each frame, that all sources have.
        column_attrs: units and meaning of `columns`.
        pixel_mask: (y, x) NeXus bits, or None.
        attrs: exposure, photon energy and so on, where all sources say the same.
        header: what the first source says of itself.
        files: in the order of the sources.
        problems: sentences for the user.
        ended_early: those of them that tell of frames that should be there and are not.
        dark: darks that came with the sources, or None.
        order: which frame of the sources comes where, or None if they are in order.
    """

    frames: FrameSource
    formats: tuple[str, ...]
    frame_numbers: npt.NDArray[np.uint64] | None
    frame_status: npt.NDArray[np.uint8] | None
    columns: Mapping[str, npt.NDArray[Any]]
    column_attrs: Mapping[str, Mapping[str, str]]
    pixel_mask: npt.NDArray[np.uint32] | None
    attrs: Mapping[str, Any]
    header: Mapping[str, Any]
    files: tuple[SourceFile, ...]
    problems: tuple[str, ...] = ()
    ended_early: tuple[str, ...] = ()
    dark: FrameSource | None = None
    order: npt.NDArray[np.int64] | None = None


def gather(sources: Sequence[OpenedSource], store_as: str | None = None) -> Gathered:
    """Put sources together, in the order in which they are given; within each, frames are put in order of number.

    Files of one frame each that follow each other are one source in this.

    Args:
        sources: at least one.
        store_as: the integer type that all values are to be stored as; None takes the sources' own.

    Raises:
        SourceError: they are not of one shape, or of no one type that an archive can hold.
    """
    if not sources:
        raise SourceError("there are no sources: name the files of frames")
    sources = [stored_as(source, store_as) for source in sources]
    units = [_unit(group) for group in _units(sources)]
    problems = [problem for source in sources for problem in source.facts.problems]
    problems += [problem for unit in units for problem in unit.problems]
    numbers, status, more = _numbered(units)
    problems += more
    attrs, differing = _shared([source.facts.attrs for source in sources])
    problems += differing
    columns, order = _columns(sources), _whole_order(units)
    if order is not None:
        columns = {name: values[order] for name, values in columns.items()}
    ended_early = tuple(source.facts.ended_early for source in sources if source.facts.ended_early)
    darks = [source.facts.dark for source in sources if source.facts.dark is not None]
    return Gathered(
        frames=_joined([unit.frames for unit in units]),
        formats=tuple(dict.fromkeys(source.facts.format for source in sources)),
        frame_numbers=numbers,
        frame_status=status,
        columns=columns,
        column_attrs={name: sources[0].facts.column_attrs.get(name, {}) for name in columns},
        pixel_mask=_mask(sources),
        attrs=attrs,
        header=sources[0].facts.header,
        files=tuple(file for source in sources for file in source.facts.files),
        problems=tuple(problems),
        ended_early=ended_early,
        dark=_joined(darks) if darks else None,
        order=order,
    )


def stored_as(source: OpenedSource, store_as: str | None) -> OpenedSource:
    """Return the source with its values in the type `store_as`, or in its own if an archive can hold that.

    Raises:
        SourceError: it cannot.
    """
    frames = source.frames
    if store_as is not None and frames.dtype != np.dtype(store_as):
        return OpenedSource(AsType(frames, np.dtype(store_as)), source.facts)
    if frames.dtype.name not in FRAME_DTYPES:
        raise SourceError(
            f"{frames.path} holds {frames.dtype} values, and an archive holds {', '.join(FRAME_DTYPES)}: choose one "
            "of these with --store-as; a value that it does not hold exactly is an error"
        )
    return source


@dataclass(frozen=True)
class _Unit:
    """Sources whose frames are numbered together."""

    frames: FrameSource
    numbers: npt.NDArray[np.uint64] | None
    status: npt.NDArray[np.uint8]
    n_lost: int
    order: npt.NDArray[np.int64] | None
    problems: list[str] = field(default_factory=list)


def _units(sources: Sequence[OpenedSource]) -> list[list[OpenedSource]]:
    def key(pair: tuple[int, OpenedSource]) -> tuple[str, int]:
        index, source = pair
        single = source.frames.n_frames == 1 and not source.facts.ended_early
        numbered = source.facts.frame_numbers is not None
        return (f"{source.facts.format} {numbered}", -1) if single else ("", index)

    return [[source for _, source in group] for _, group in groupby(enumerate(sources), key)]


def _unit(sources: list[OpenedSource]) -> _Unit:
    frames = _joined([source.frames for source in sources])
    status = _concatenated([source.facts.frame_status for source in sources], sources, np.uint8)
    lost = sum(source.facts.n_lost for source in sources)
    known = [source.facts.frame_numbers for source in sources]
    if any(numbers is None for numbers in known):
        return _Unit(frames, None, status, lost, None)
    numbering = Numbering.of(np.concatenate([numbers for numbers in known if numbers is not None]))
    if numbering.order is not None:
        frames = Reordered(frames, numbering.order)
        status = status[numbering.order]
    where = str(sources[0].frames.path) if len(sources) == 1 else f"{sources[0].frames.path} and those that follow"
    problems = [f"{where}: {problem}" for problem in numbering.problems()]
    return _Unit(frames, numbering.numbers, status | numbering.status, 0, numbering.order, problems)


def _numbered(
    units: list[_Unit],
) -> tuple[npt.NDArray[np.uint64] | None, npt.NDArray[np.uint8] | None, list[str]]:
    """Number the frames of all units, those without numbers of their own after the frame before them."""
    status = np.concatenate([unit.status for unit in units])
    anything_lost = any(unit.n_lost for unit in units[:-1])
    if all(unit.numbers is None for unit in units) and not anything_lost:
        return None, status if status.any() else None, []
    problems: list[str] = []
    runs: list[npt.NDArray[np.uint64]] = []
    following = first = lost = 0
    for unit in units:
        numbers = unit.numbers
        if numbers is None:
            numbers = np.arange(following, following + unit.frames.n_frames, dtype=np.uint64)
        begins = int(numbers[0])
        if runs and begins < following:
            problems.append(f"frame numbers begin again at {begins} with {unit.frames.path}: they are kept as they are")
        elif runs and (begins > following or lost):
            status[first] |= np.uint8(FrameStatus.AFTER_GAP)
            if begins > following and unit.numbers is not None:
                problems.append(f"{begins - following:,} frame numbers are missing before {unit.frames.path}")
        runs.append(numbers)
        lost = unit.n_lost
        following = int(numbers[-1]) + 1 + lost
        first += unit.frames.n_frames
    return np.concatenate(runs), status, problems


def _concatenated(parts: Sequence[Any], sources: list[OpenedSource], dtype: type[Any]) -> npt.NDArray[Any]:
    return np.concatenate(
        [
            np.zeros(source.frames.n_frames, dtype) if part is None else part.astype(dtype)
            for part, source in zip(parts, sources, strict=True)
        ]
    )


def _whole_order(units: list[_Unit]) -> npt.NDArray[np.int64] | None:
    if all(unit.order is None for unit in units):
        return None
    runs, first = [], 0
    for unit in units:
        n = unit.frames.n_frames
        runs.append(first + (np.arange(n) if unit.order is None else unit.order))
        first += n
    return np.concatenate(runs)


def _columns(sources: Sequence[OpenedSource]) -> dict[str, npt.NDArray[Any]]:
    names = [name for name in sources[0].facts.columns if all(name in source.facts.columns for source in sources)]
    return {name: np.concatenate([source.facts.columns[name] for source in sources]) for name in names}


def _shared(attrs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return what all say alike, and a sentence for each thing that they don't."""
    shared, problems = {}, []
    for name in attrs[0]:
        values = list(dict.fromkeys(str(each.get(name)) for each in attrs))
        if len(values) == 1:
            shared[name] = attrs[0][name]
        else:
            problems.append(f"{name} differs between the sources ({', '.join(values[:3])}): it is left out")
    return shared, problems


def _mask(sources: Sequence[OpenedSource]) -> npt.NDArray[np.uint32] | None:
    shape = sources[0].frames.frame_shape
    masks = [source.facts.pixel_mask for source in sources if source.facts.pixel_mask is not None]
    masks = [mask for mask in masks if mask.shape == shape]
    if not masks:
        return None
    combined = masks[0]
    for mask in masks[1:]:
        combined = combined | mask
    return combined


def _joined(sources: Sequence[FrameSource]) -> FrameSource:
    return sources[0] if len(sources) == 1 else FrameSeries(sources)
