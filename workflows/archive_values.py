"""What the values of an archive's frames say, by a look at some of them: their range, saturation, gains, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from finder.gain_bits import WORD_BITS, in_another_gain
from frame_archive import ArchiveError, FrameArchive, find_plane
from workflows.facts import Fact, Section

# So much is read, in so many places evenly spread over the run.
_LOOK_BYTES, _PLACES = 64 << 20, 8
_NUMBERS_AT_A_TIME = 1 << 20
SATURATION = "saturation_value"
"""NeXus' name (NXdetector) for the value from which on a pixel is saturated: of the frames or the archive."""


def values_section(archive: FrameArchive) -> Section:
    """The figures of a page; where frames can't be read, why."""
    try:
        facts = _facts(archive)
    except ArchiveError as error:
        facts = [Fact("frames_looked_at", None, f"none: {error}")]
    return Section("values of the frames", facts)


def gaps_fact(archive: FrameArchive) -> Fact:
    """Frames that are missing, come twice or out of order, by the numbers that the archive keeps."""
    if "frame_number" not in archive.stored_arrays:
        return Fact("frame_gaps", None, "not known: no frame numbers are kept")
    missing = gaps = repeated = backwards = 0
    first: list[int] = []
    last: npt.NDArray[np.int64] = np.empty(0, np.int64)
    try:
        for start in range(0, archive.n_frames, _NUMBERS_AT_A_TIME):
            numbers = archive.frame_numbers(start, min(start + _NUMBERS_AT_A_TIME, archive.n_frames)).view(np.int64)
            steps = np.diff(np.concatenate([last, numbers]))
            after = np.flatnonzero(steps > 1)
            missing, gaps = missing + int((steps[after] - 1).sum()), gaps + len(after)
            first += [int(np.concatenate([last, numbers])[i]) for i in after[: 1 - len(first)]]
            repeated, backwards = repeated + int((steps == 0).sum()), backwards + int((steps < 0).sum())
            last = numbers[-1:]
    except ArchiveError as error:
        return Fact("frame_gaps", None, f"not known: {error}")
    words = [f"{missing:,} frames are missing in {gaps:,} places, the first after {first[0]:,}"] if gaps else []
    words += [f"{repeated:,} numbers come twice"] if repeated else []
    words += [f"{backwards:,} times a number is lower than the one before"] if backwards else []
    value = {"missing": missing, "places": gaps, "repeated": repeated, "backwards": backwards}
    return Fact("frame_gaps", value, "; ".join(words) or "none")


def status_facts(archive: FrameArchive) -> list[Fact]:
    """How many frames something is wrong with, by the archive's `frame_status`; nothing where there is none."""
    frames_path = archive.address.frames_path or "frames"
    try:
        stored = find_plane(archive.address.path, [f"{frames_path.rpartition('/')[0]}/frame_status".lstrip("/")])
        if stored is None or not stored.array.path or stored.array.shape != (archive.n_frames,):
            return []
        meanings = str(stored.array.attrs.get("flag_meanings", "")).split()
        masks: Any = stored.array.attrs.get("flag_masks", [])
        counts = np.zeros(len(meanings) + 1, np.int64)
        for start in range(0, archive.n_frames, _NUMBERS_AT_A_TIME):
            status = stored.read_new(start, min(start + _NUMBERS_AT_A_TIME, archive.n_frames))
            counts[0] += int(np.count_nonzero(status))
            counts[1:] += [int(np.count_nonzero(status & mask)) for mask, _ in zip(masks, meanings, strict=True)]
    except (ArchiveError, TypeError, ValueError) as error:
        return [Fact("frames_flagged", None, f"not known: {error}")]
    words = ", ".join(
        f"{n:,} {meaning.replace('_', ' ')}" for meaning, n in zip(meanings, counts[1:], strict=True) if n
    )
    value = {"any": int(counts[0]), **dict(zip(meanings, counts[1:].tolist(), strict=True))}
    return [Fact("frames_flagged", value, f"{counts[0]:,}" + (f": {words}" if words else ""))]


def _facts(archive: FrameArchive) -> list[Fact]:
    gain_bits = archive.gain_bits
    saturation = _saturation_value(archive)
    n_frames = n_values = n_saturated = n_switched = 0
    lowest, highest = 2**63, -(2**63)
    always: npt.NDArray[np.bool_] | None = None
    for frames in _some_frames(archive):
        saturated = _saturated(frames, saturation, gain_bits)
        n_frames, n_values = n_frames + len(frames), n_values + frames.size
        n_saturated += int(np.count_nonzero(saturated))
        n_switched += int(np.count_nonzero(in_another_gain(frames, gain_bits)))
        lowest, highest = min(lowest, int(frames.min())), max(highest, int(frames.max()))
        here: npt.NDArray[np.bool_] = np.all(saturated, axis=0)
        always = here if always is None else np.logical_and(always, here)
    if always is None:
        return [Fact("frames_looked_at", 0, "there are none")]
    by = f"from {saturation:,} on" if not gain_bits else "all bits of the value set"
    facts = [
        Fact("frames_looked_at", n_frames, f"{n_frames:,}, evenly spread"),
        Fact("range_ADU", [lowest, highest], f"{lowest:,} to {highest:,} as stored"),
        Fact("saturated_values", n_saturated, f"{n_saturated:,} ({n_saturated / n_values:.3%}), {by}"),
        Fact("pixels_always_saturated", int(always.sum()), f"{int(always.sum()):,}"),
        Fact("gain_bits", gain_bits, str(gain_bits) if gain_bits else "none that the metadata tell of"),
    ]
    if gain_bits:
        text = f"{n_switched:,} ({n_switched / n_values:.3%}) in another gain than 0"
        facts.append(Fact("switched_values", n_switched, text))
    return facts


def _some_frames(archive: FrameArchive) -> Iterator[npt.NDArray[Any]]:
    """Frames of whole chunks where they are small, a few of them where not, from places evenly spread."""
    at_a_time = max(
        1, min(archive.stored_arrays["frames"].rows_per_chunk, _LOOK_BYTES // _PLACES // archive.frame_nbytes)
    )
    n_parts = -(-archive.n_frames // at_a_time)
    places = min(_PLACES, n_parts)
    for place in range(places):
        start = place * n_parts // places * at_a_time
        frames = np.empty((min(at_a_time, archive.n_frames - start), *archive.frame_shape), archive.dtype)
        archive.read(start, start + len(frames), frames)
        yield frames


def _saturated(frames: npt.NDArray[Any], saturation: int, gain_bits: int) -> npt.NDArray[np.bool_]:
    if not gain_bits:
        return np.asarray(frames >= saturation)
    value = (1 << (WORD_BITS - gain_bits)) - 1
    return np.asarray((frames & frames.dtype.type(value)) == value)


def _saturation_value(archive: FrameArchive) -> int:
    for attrs in (archive.frames.attrs.asdict(), archive.attrs):
        value = attrs.get(SATURATION)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
    return int(np.iinfo(archive.dtype).max)
