"""How an archive begins: a place for it, all that it has but its frames, or what an earlier run left of it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from frame_archive import ArchiveError, ArchiveWriter, create_archive, local_path
from pipeline.errors import ResumeError
from pipeline.ingest.plan import IngestPlan
from pipeline.ingest.provenance import of_unfinished

_ROWS_OF_COLUMNS = 1 << 20
_STATUS = {
    "long_name": "what is wrong with a frame; 0 is a good one",
    "flag_masks": [1, 2, 4, 8],
    "flag_meanings": "missing_packets missing_module duplicate_number after_gap",
}
COLUMN_ATTRS: dict[str, dict[str, Any]] = {
    "frame_number": {"long_name": "the detector's number of the frame"},
    "frame_status": _STATUS,
    "frame_digest": {"long_name": "XXH3-64 of each frame's values, little-endian, rows one after the other"},
}


def require_place(
    out: str | os.PathLike[str], plan: IngestPlan | None, *, resume: bool = False, overwrite: bool = False
) -> None:
    """Check that the archive may be written where it is wanted.

    Args:
        out: Where.
        plan: What it is made of; None if that is not known yet.
        resume: What is there goes on.
        overwrite: What is there is replaced.

    Raises:
        ArchiveError: Something is there already, or one of the sources lies there.
    """
    place = Path(local_path(os.fspath(out))).absolute()
    if os.path.lexists(place) and not (resume or overwrite):
        raise ArchiveError(f"{place} exists already: choose another name, go on with --resume, or use --overwrite")
    sources = [] if plan is None else [*(str(file.path) for file in plan.gathered.files), *plan.dark_files]
    for source in sources:
        if place.resolve() in (Path(source).resolve(), *Path(source).resolve().parents):
            raise ArchiveError(f"{place} is what the archive would be made of ({source}): give it another name")


def created(plan: IngestPlan, out: str | os.PathLike[str], overwrite: bool, command: str) -> ArchiveWriter:
    """Make the archive, with all but its frames.

    Raises:
        ArchiveError: The place is taken or can't be written.
    """
    writer = create_archive(
        out,
        plan.shape,
        plan.dtype,
        plan.n_dark,
        attrs=of_unfinished(plan, command, begun=False),
        pixel_mask=plan.pixel_mask,
        frames_per_chunk=plan.frames_per_chunk,
        overwrite=overwrite,
        compression=plan.compression,
    )
    if plan.dark is not None and plan.dark_attrs:
        writer.set_attrs(plan.dark_attrs, of="dark")
    for name, values in plan.columns().items():
        attrs = COLUMN_ATTRS.get(name) or plan.gathered.column_attrs.get(name, {})
        add_column(writer, name, values, attrs)
    # From here on a run can go on with what is there.
    writer.set_attrs(of_unfinished(plan, command, begun=True))
    return writer


def resumed(plan: IngestPlan, out: str | os.PathLike[str]) -> ArchiveWriter | None:
    """The archive that an earlier run has begun; None if that did not come as far as the first frame.

    Raises:
        ResumeError: What is there is no unfinished archive of the same sources and options.
    """
    try:
        writer = ArchiveWriter.open(out)
    except ArchiveError as error:
        raise ResumeError(f"there is nothing to go on with: {error}") from error
    state = writer.attrs().get("ingest")
    state = state if isinstance(state, dict) else {}
    if state.get("status") == "complete":
        raise ResumeError(f"{writer.path} is complete: there is nothing to go on with; --overwrite makes it anew")
    if state.get("status") != "running":
        raise ResumeError(f"{writer.path} was not made by ingest: choose another name, or replace it with --overwrite")
    if state.get("plan") is None:
        return None
    if state.get("plan") != plan.digest:
        raise ResumeError(
            f"{writer.path} was begun from other sources or with other options, or the sources have changed since: "
            "begin anew with --overwrite"
        )
    # A run that ended in the middle of shortening them.
    for name, length in (("frames", plan.shape[0]), ("dark", plan.n_dark)):
        if length:
            writer.set_length(name, length)
            writer.remove_halves(name)
    for name, values in plan.columns().items():
        add_column(writer, name, values, COLUMN_ATTRS.get(name) or plan.gathered.column_attrs.get(name, {}))
    return dataclasses.replace(writer, compression=plan.compression)


def add_column(writer: ArchiveWriter, name: str, values: npt.NDArray[Any], attrs: Mapping[str, Any]) -> None:
    """Write an array of one value a frame, in place of one of that name."""
    chunks = (min(len(values), _ROWS_OF_COLUMNS),)
    # An earlier run may have come as far as this.
    writer.add_array(name, values.shape, values.dtype, chunks, ("frame",), attrs, overwrite=True)
    for start in range(0, len(values), _ROWS_OF_COLUMNS):
        writer.write(name, start, values[start : start + _ROWS_OF_COLUMNS])
