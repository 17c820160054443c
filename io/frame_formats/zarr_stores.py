"""Other people's Zarr stores, and archives to be chunked or packed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_archive import ArchiveError, FrameArchive, find_column
from frame_formats.errors import SourceError
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError

# What belongs to the archive that was, and not to what is made of it.
_OF_THE_STORE = ("format", "format_version", "ingest", "history")


def is_zarr_store(path: Path) -> bool:
    """Whether a folder is a Zarr store."""
    return path.is_dir() and any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zarray"))


def open_zarr_store(path: Path, name: str | None) -> OpenedSource:
    """Open the frames of a Zarr store, with its darks, mask and frame numbers.

    Raises:
        SourceError: it is no archive of frames.
    """
    try:
        archive = FrameArchive.open(path, name)
        numbers = archive.frame_numbers(0, archive.n_frames) if "frame_number" in archive.stored_arrays else None
        dark = _Stored(archive, "dark", archive.n_dark) if archive.n_dark else None
        mask = archive.pixel_mask
        columns = _columns(archive) if archive.frames.path else {}
    except ArchiveError as error:
        raise SourceError(str(error)) from error
    attrs = {key: value for key, value in archive.attrs.items() if key not in _OF_THE_STORE}
    frames = _Stored(archive, "frames", archive.n_frames)
    status = columns.pop("frame_status", None)
    files = (SourceFile(path, archive.n_frames),)
    facts = SourceFacts(
        "Zarr",
        attrs=attrs,
        frame_numbers=numbers,
        frame_status=status,
        columns=columns,
        pixel_mask=mask,
        files=files,
        dark=dark,
    )
    return OpenedSource(frames, facts)


def _columns(archive: FrameArchive) -> dict[str, npt.NDArray[Any]]:
    """What an archive of ours knows of each frame."""
    place = Path(archive.address.path)
    parent = archive.frames.path.rpartition("/")[0]
    found = {}
    for name in ("frame_status", "timestamp", "bunch_id"):
        stored = find_column(place, f"{parent}/{name}".strip("/"), archive.n_frames)
        if stored is not None:
            found[name] = stored
    return found


class _Stored(FrameSource):
    def __init__(self, archive: FrameArchive, array: str, n: int) -> None:
        self.path = Path(archive.address.path)
        self.n_frames = n
        self.frame_shape = archive.frame_shape
        stored = archive.stored_arrays[array]
        self.dtype: np.dtype[Any] = stored.dtype
        self.frames_together = stored.rows_per_chunk
        self._archive, self._array = archive, array

    def read(self, start: int, stop: int, out: Frames) -> None:
        stored = self._archive.stored_arrays[self._array]
        try:
            stored.read(start, stop, out)
        except ArchiveError:
            for index in range(start, stop):  # Which of them it is.
                try:
                    stored.read(index, index + 1, out[index - start : index - start + 1])
                except ArchiveError as error:
                    raise UnreadableFrameError(index, str(error)) from error
            raise
