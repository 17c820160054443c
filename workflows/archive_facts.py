"""What there is to know of a frame archive: how it is stored, and what a look at some of its frames shows."""

from __future__ import annotations

import numpy as np

from frame_archive import FrameArchive
from guarded_zarr import codec_names
from workflows.archive_values import gaps_fact, status_facts, values_section
from workflows.checksums import NONE, checksums_in
from workflows.facts import Fact, Page, Section, missing_fact, sizes, times


def archive_page(archive: FrameArchive) -> Page:
    """The page of an archive."""
    path = archive.address.path
    sections = [
        Section("archive", _contents(archive)),
        values_section(archive),
        Section("frames as stored", _storage(archive, "frames")),
    ]
    titles = {"dark": "dark frames", "pixel_mask": "pixel mask", "frame_number": "frame numbers"}
    sections += [
        Section(f"{title} as stored", _storage(archive, name))
        for name, title in titles.items()
        if name in archive.stored_arrays
    ]
    if archive.attrs:
        sections.append(
            Section("attributes", [Fact(name, value) for name, value in archive.attrs.items()], as_named=True)
        )
    frames_path = archive.address.frames_path
    more = f", frames_path={frames_path!r}" if frames_path else ""
    opening = f"from frame_archive import FrameArchive; archive = FrameArchive.open({path!r}{more})"
    return Page("frame archive", path, sections, opening)


def _contents(archive: FrameArchive) -> list[Fact]:
    facts = [
        Fact("frames", archive.n_frames, f"{archive.n_frames:,}"),
        Fact("frame_shape", list(archive.frame_shape), f"{times(archive.frame_shape)} pixels (rows × columns)"),
        Fact("dtype", str(archive.dtype)),
        Fact("dark_frames", archive.n_dark, f"{archive.n_dark:,}" if archive.n_dark else "none"),
        _mask(archive),
    ]
    if archive.n_frames:
        first, last = (int(archive.frame_numbers(i, i + 1)[0]) for i in (0, archive.n_frames - 1))
        facts.append(Fact("frame_numbers", [first, last], f"{first:,} to {last:,}"))
    facts += [gaps_fact(archive), *status_facts(archive)]
    return facts


def _mask(archive: FrameArchive) -> Fact:
    if archive.pixel_mask is None:
        return Fact("masked_pixels", None, "no mask")
    # NeXus: any of the low 16 bits says that the pixel is not to be used.
    masked = int(np.count_nonzero(archive.pixel_mask & 0xFFFF))
    return Fact("masked_pixels", masked, f"{masked:,} of {archive.pixel_mask.size:,}")


def _storage(archive: FrameArchive, name: str) -> list[Fact]:
    stored = archive.stored_arrays[name]
    array, n_rows = stored.array, int(stored.array.shape[0])
    codecs = codec_names(array)
    facts = [
        Fact("zarr_format", array.metadata.zarr_format),
        Fact("chunks", list(array.chunks), times(array.chunks)),
    ]
    if array.shards is not None:
        facts.append(Fact("shards", list(array.shards), times(array.shards)))
    checksums = checksums_in(codecs)
    return [
        *facts,
        Fact("codecs", codecs, ", ".join(codecs) or "none: uncompressed"),
        Fact("checksums", checksums, ", ".join(checksums) or NONE),
        missing_fact(stored.missing_chunks(0, n_rows)),
        *sizes(stored.stored_bytes(0, n_rows), array.nbytes),
    ]
