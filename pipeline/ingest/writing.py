"""What a worker does: read a part of the sources, write it into the archive, read it back and compare."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from frame_archive import ArchiveError, ArchiveWriter
from frame_formats import FrameSource, SourceError, UnreadableFrameError
from pipeline.ingest.plan import Part, Verify

_SAMPLED = 16
"""Of so many chunks one is read back, with `--verify sample`; the first always is."""
_CACHE_BYTES = 384 << 10


@dataclass(frozen=True)
class PartReport:
    """What became of a part.

    Args:
        part: Which one, without its source.
        digests: XXH3-64 of each frame that was written, (frame) uint64.
        n_verified: Chunks that were read back.
        n_found: Frames that had been written by an earlier run.
        cpu_seconds: CPU time that it took.
        problem: What went wrong, in a sentence; else empty.
        of_source: Whether it is the source that is wrong, and the same again would go wrong too.
        unreadable_from: The first frame of the archive that can't be read from its source, with `problem`; else None.
    """

    kind: str
    start: int
    stop: int
    digests: npt.NDArray[np.uint64]
    n_verified: int = 0
    n_found: int = 0
    cpu_seconds: float = 0.0
    problem: str = ""
    of_source: bool = False
    unreadable_from: int | None = None


def write_part(part: Part, writer: ArchiveWriter, frames_per_chunk: int, verify: Verify, go_on: bool) -> PartReport:
    """Write a part of an archive.

    What is wrong is returned, not raised: Dask would log the traceback of what is a plain sentence.

    Args:
        part: Which frames.
        writer: Of the archive.
        frames_per_chunk: Of the archive.
        verify: Which chunks are read back.
        go_on: Whether chunks may be there already, from a run that was broken off.
    """
    digests: list[int] = []
    n_verified = n_found = 0
    problem, of_source, unreadable_from = "", False, None
    began = time.thread_time()
    at_once = _frames_at_once(part.source, frames_per_chunk)

    def read(start: int, stop: int, out: npt.NDArray[Any]) -> None:
        part.source.read(start - part.start, stop - part.start, out)
        digests.extend(_digests_of(out))

    try:
        for start, stop in _blocks(part, frames_per_chunk):
            if go_on and (found := _found(part, writer, start, stop)) is not None:
                n_found += stop - start
                digests += found
            else:
                writer.write_as_read(part.kind, start, stop, read, at_once or stop - start)
                n_verified += _verified(part, writer, frames_per_chunk, verify, start, digests[start - part.start :])
    except UnreadableFrameError as error:
        problem, unreadable_from = error.why, part.start + error.index
    except (ArchiveError, SourceError) as error:
        problem, of_source = str(error), isinstance(error, SourceError)
    except MemoryError:
        of_source = True
        problem = (
            f"chunks of {frames_per_chunk} frames of {part.source.path} take more than this machine can hold: make "
            "them smaller with --frames-per-chunk"
        )
    return PartReport(
        part.kind,
        part.start,
        part.stop,
        np.array(digests, np.uint64),
        n_verified,
        n_found,
        time.thread_time() - began,
        problem,
        of_source,
        unreadable_from,
    )


def _digests_of(frames: npt.NDArray[Any]) -> list[int]:
    return [xxhash.xxh3_64_intdigest(frame) for frame in frames]


def _frames_at_once(source: FrameSource, frames_per_chunk: int) -> int:
    """How many frames are read and looked at in one go: as many as fit into a core's own cache; 0 for a whole block.

    On an AMD EPYC (512 KiB of cache a core) reading, digest, checksum and writing of 400×400 uint16 from an NPY file
    took a fifth less CPU time by single frames than by chunks of 6.4 MB. From HDF5, single frames took three times as
    long to read.
    """
    if not source.singly:
        return 0
    y, x = source.frame_shape
    return min(frames_per_chunk, _CACHE_BYTES // (y * x * source.dtype.itemsize))


def _blocks(part: Part, frames_per_chunk: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole chunks that are read in one go: a chunk, or what is decoded together."""
    step = frames_per_chunk * -(-part.source.frames_together // frames_per_chunk)
    step = min(step, -(-len(part) // frames_per_chunk) * frames_per_chunk)
    for start in range(part.start, part.stop, step):
        yield start, min(start + step, part.stop)


def _verified(
    part: Part, writer: ArchiveWriter, frames_per_chunk: int, verify: Verify, start: int, written: list[int]
) -> int:
    """Read chunks back, and compare the digests of their frames with those that were written; return how many.

    Raises:
        ArchiveError: One is not what was written.
    """
    n = 0
    for at in range(0, len(written), frames_per_chunk):
        first = start + at
        if verify == "none" or (verify == "sample" and first // frames_per_chunk % _SAMPLED):
            continue
        expected = written[at : at + frames_per_chunk]
        if _digests_of(writer.read_back(part.kind, first, first + len(expected))) != expected:
            raise ArchiveError(
                f"{Path(writer.path) / part.kind} does not hold what was written: frames {first} to "
                f"{first + len(expected) - 1} read back differ, so look after the disk, and write it elsewhere"
            )
        n += 1
    return n


def _found(part: Part, writer: ArchiveWriter, start: int, stop: int) -> list[int] | None:
    """Digests of what an earlier run has written of frames `start` to `stop`; None if it is not there, or not whole."""
    try:
        return _digests_of(writer.read_back(part.kind, start, stop))
    except ArchiveError:
        return None
