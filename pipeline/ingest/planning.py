"""From what a user names to a plan: sources opened, put together and checked, darks and mask with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client

from frame_archive import FRAME_DTYPES, Compression
from frame_formats import (
    FrameSource,
    Gathered,
    OpenedSource,
    SourceError,
    SourceOptions,
    files_meant,
    gather,
    open_source,
)
from pipeline.ingest.plan import IngestPlan, frames_per_chunk_for
from pipeline.inputs.pixel_masks import read_mask

_FILES_A_TASK = 50
"""So few files are opened here; of more, so many by a task of the workers."""
_FIRST = "first:"


class IngestWarning(UserWarning):
    """Something about the sources that the user should know."""


@dataclass(frozen=True)
class IngestOptions:
    """How an archive is made of its sources.

    Args:
        dark: What the darks come from: files, or ``first:N``; nothing takes those that come with the sources.
        mask: Path of a mask that is added to the sources' own.
        store_as: The integer type of the archive; None is the sources' own.
        gain_bits: Bits above the value bits that say which gain a pixel was in; None is what the detector has.
        frames_per_chunk: Of the archive; None is 20, or fewer of large frames.
        compression: Of the chunks.
        source: What the files do not say of themselves.
    """

    dark: tuple[str, ...] = ()
    mask: str | None = None
    store_as: str | None = None
    gain_bits: int | None = None
    frames_per_chunk: int | None = None
    compression: Compression = "lz4"
    source: SourceOptions = field(default_factory=SourceOptions)

    def __post_init__(self) -> None:
        if self.store_as is not None and self.store_as not in FRAME_DTYPES:
            raise ValueError(f"--store-as {self.store_as}: an archive holds {', '.join(FRAME_DTYPES)}")
        if self.gain_bits is not None and not 0 <= self.gain_bits <= 8:
            raise ValueError(f"--gain-bits {self.gain_bits}: a detector has none to eight")
        if self.frames_per_chunk is not None and self.frames_per_chunk < 1:
            raise ValueError(f"--frames-per-chunk {self.frames_per_chunk}: a chunk has at least one frame")


def plan_ingest(
    sources: Sequence[str],
    options: IngestOptions,
    client: Client | None = None,
    on_step: Callable[[str], object] = lambda text: None,
) -> IngestPlan:
    """Open the sources and plan what is made of them.

    Args:
        sources: Files, folders, patterns, Zarr stores; ``PATH::NAME`` names an array in one.
        options: How.
        client: Of workers that help to open many files.
        on_step: Told in a few words what begins.

    Raises:
        SourceError: A source can't be read, or they do not fit together.
        IngestWarning: (as a warning) Gaps, duplicates, files cut short, settings that differ.
    """
    meant = _meant(sources)
    on_step(f"opening {meant[0][0].name if len(meant) == 1 else f'{len(meant):,} files'}")
    gathered = gather(_opened(meant, options.source, client), options.store_as)
    frames = gathered.frames
    n_first, dark, dark_files, dark_attrs = _darks(options, gathered, client)
    for problem in [*gathered.problems, *gathered.ended_early]:
        warnings.warn(problem, IngestWarning, stacklevel=2)
    mask = gathered.pixel_mask
    if options.mask is not None:
        given = read_mask(options.mask, frames.frame_shape, f"the frames of {frames.path}")
        mask = given if mask is None else mask | given
    nbytes = frames.frame_shape[0] * frames.frame_shape[1] * frames.dtype.itemsize
    attrs = dict(gathered.attrs)
    if options.gain_bits is not None:
        attrs["gain_bits"] = options.gain_bits
    return IngestPlan(
        gathered=gathered,
        dark=dark,
        dark_files=dark_files,
        dark_attrs=dark_attrs,
        n_dark_first=n_first,
        pixel_mask=mask,
        frames_per_chunk=options.frames_per_chunk or frames_per_chunk_for(nbytes),
        compression=options.compression,
        attrs=attrs,
    )


def needs_workers(sources: Sequence[str]) -> bool:
    """Whether the files are so many that workers should open them."""
    return len(files_meant(sources)) > _FILES_A_TASK


def _meant(addresses: Sequence[str]) -> list[tuple[Path, str | None]]:
    # Workers may stand in another folder.
    return [(path.absolute(), name) for path, name in files_meant(addresses, _warn_of_repeat)]


def _warn_of_repeat(path: Path) -> None:
    warnings.warn(f"{path} is named more than once, and taken once", IngestWarning, stacklevel=4)


def _opened(
    meant: Sequence[tuple[Path, str | None]], options: SourceOptions, client: Client | None
) -> list[OpenedSource]:
    if client is None or len(meant) <= _FILES_A_TASK:
        return [open_source(path, name, options) for path, name in meant]
    futures = [client.submit(_open_some, group, options, pure=False) for group in _groups(meant)]
    opened: list[OpenedSource] = []
    for future in futures:
        some = future.result()
        if isinstance(some, SourceError):
            raise some
        opened += some
    return opened


def _groups(meant: Sequence[tuple[Path, str | None]]) -> Iterator[Sequence[tuple[Path, str | None]]]:
    for start in range(0, len(meant), _FILES_A_TASK):
        yield meant[start : start + _FILES_A_TASK]


def _open_some(meant: Sequence[tuple[Path, str | None]], options: SourceOptions) -> list[OpenedSource] | SourceError:
    try:
        return [open_source(path, name, options) for path, name in meant]
    except SourceError as error:
        return error


def _darks(
    options: IngestOptions, gathered: Gathered, client: Client | None
) -> tuple[int, FrameSource | None, tuple[str, ...], dict[str, Any]]:
    """How many of the first frames are darks, the darks, what they come from, and what is said of them."""
    frames = gathered.frames
    if not options.dark:
        return 0, gathered.dark, ("with the sources",) if gathered.dark is not None else (), {}
    if any(dark.startswith(_FIRST) for dark in options.dark):
        n = _first_n(options.dark, frames.n_frames)
        return n, frames.cut(0, n), options.dark, {}
    dark = gather(_opened(_meant(options.dark), options.source, client), options.store_as or str(frames.dtype))
    if dark.frames.frame_shape != frames.frame_shape:
        of_dark, of_frames = ("×".join(map(str, shape)) for shape in (dark.frames.frame_shape, frames.frame_shape))
        raise SourceError(
            f"the darks of {dark.frames.path} have {of_dark} pixels, and the frames of {frames.path} {of_frames}: "
            "give darks of the same detector and region"
        )
    for problem in [*dark.problems, *dark.ended_early]:
        warnings.warn(f"darks: {problem}", IngestWarning, stacklevel=3)
    files = tuple(str(file.path) for file in dark.files)
    return 0, dark.frames, files, dict(dark.attrs)


def _first_n(dark: tuple[str, ...], n_frames: int) -> int:
    text = dark[0].removeprefix(_FIRST)
    if len(dark) > 1 or not text.isdigit() or int(text) < 1:
        raise ValueError(f"--dark {' '.join(dark)}: give first:N with a number of frames, or files")
    if int(text) >= n_frames:
        raise ValueError(f"--dark {dark[0]}: there are only {n_frames} frames, and some have to be left")
    return int(text)
