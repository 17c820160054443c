"""What there is to know of a frame archive without reading its frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from zarr.core.metadata import ArrayV2Metadata

from frame_archive import FrameArchive
from workflows.facts import Fact, Page, Section, sizes, times

_CHECKSUMS = ("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3")


def archive_page(archive: FrameArchive) -> Page:
    """The page of an archive."""
    path = archive.address.path
    sections = [
        Section("archive", _contents(archive)),
        Section("frames as stored", _storage(archive.frames, archive.missing_chunks(0, archive.n_frames))),
    ]
    if archive.dark is not None:
        sections.append(Section("dark frames as stored", _storage(archive.dark, None)))
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
    return facts


def _mask(archive: FrameArchive) -> Fact:
    if archive.pixel_mask is None:
        return Fact("masked_pixels", None, "no mask")
    # NeXus: any of the low 16 bits says that the pixel is not to be used.
    masked = int(np.count_nonzero(archive.pixel_mask & 0xFFFF))
    return Fact("masked_pixels", masked, f"{masked:,} of {archive.pixel_mask.size:,}")


def _storage(array: zarr.Array[Any], missing: list[str] | None) -> list[Fact]:
    codecs = _codec_names(array)
    checksums = [name for name in codecs if name in _CHECKSUMS]
    facts = [
        Fact("zarr_format", array.metadata.zarr_format),
        Fact("chunks", list(array.chunks), times(array.chunks)),
    ]
    if array.shards is not None:
        facts.append(Fact("shards", list(array.shards), times(array.shards)))
    facts += [
        Fact("codecs", codecs, ", ".join(codecs) or "none: uncompressed"),
        Fact("checksums", checksums, ", ".join(checksums) or "none: damage to a chunk may go unnoticed"),
    ]
    if missing is not None:
        named = f"{', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}"
        facts.append(Fact("missing_chunks", missing, named if missing else "none"))
    facts += sizes(array.nbytes_stored(), array.nbytes)
    return facts


def _codec_names(array: zarr.Array[Any]) -> list[str]:
    """The codecs a chunk goes through, in order, those inside shards included; Blosc with what it holds."""
    metadata = array.metadata
    if isinstance(metadata, ArrayV2Metadata):
        configs = [
            codec.get_config() for codec in (*(metadata.filters or ()), metadata.compressor) if codec is not None
        ]
        shuffles = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle", -1: "shuffle"}
        return [_described(c["id"], c | {"shuffle": shuffles.get(c.get("shuffle", 0))}) for c in configs]
    return _v3_names(metadata.to_dict()["codecs"])


def _v3_names(codecs: Any) -> list[str]:
    names: list[str] = []
    for codec in codecs:
        configuration = codec.get("configuration", {})
        if codec["name"] == "sharding_indexed":
            names += _v3_names(configuration["codecs"])
        elif codec["name"] != "bytes":
            names.append(_described(codec["name"].removeprefix("numcodecs."), configuration))
    return names


def _described(name: str, configuration: dict[str, Any]) -> str:
    if name == "blosc":
        return f"blosc ({configuration['cname']}, level {configuration['clevel']}, {configuration['shuffle']})"
    return name
