"""What a worker does: read a part of the sources, write it into the archive, read it back and compare."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from frame_archive import ArchiveError, ArchiveWriter
from frame_formats import SourceError, UnreadableFrameError
from pipeline.ingest.plan import Part, Verify

_SAMPLED = 16
"""Of so many chunks one is read back, with `--verify sample`; the first always is."""


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
    problem, unreadable_from = "", None
    began = time.thread_time()
    try:
        for start, stop in _blocks(part, frames_per_chunk):
            if go_on and (values := _found(part, writer, start, stop)) is not None:
                n_found += stop - start
            else:
                values = _buffer((stop - start, *part.source.frame_shape), part.source.dtype)
                part.source.read(start - part.start, stop - part.start, values)
                writer.write(part.kind, start, values)
                n_verified += _verified(part, writer, frames_per_chunk, verify, start, values)
            digests += [xxhash.xxh3_64_intdigest(frame) for frame in values]
    except UnreadableFrameError as error:
        problem, unreadable_from = error.why, part.start + error.index
    except (ArchiveError, SourceError) as error:
        problem = str(error)
    return PartReport(
        part.kind,
        part.start,
        part.stop,
        np.array(digests, np.uint64),
        n_verified,
        n_found,
        time.thread_time() - began,
        problem,
        unreadable_from,
    )


def _blocks(part: Part, frames_per_chunk: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole chunks that are read in one go: a chunk, or what is decoded together."""
    step = frames_per_chunk * -(-part.source.frames_together // frames_per_chunk)
    step = min(step, -(-len(part) // frames_per_chunk) * frames_per_chunk)
    for start in range(part.start, part.stop, step):
        yield start, min(start + step, part.stop)


def _verified(
    part: Part, writer: ArchiveWriter, frames_per_chunk: int, verify: Verify, start: int, written: npt.NDArray[Any]
) -> int:
    """Read chunks back and compare; return how many.

    Raises:
        ArchiveError: One is not what was written.
    """
    n = 0
    for at in range(0, len(written), frames_per_chunk):
        first = start + at
        if verify == "none" or (verify == "sample" and first // frames_per_chunk % _SAMPLED):
            continue
        expected = written[at : at + frames_per_chunk]
        stored = writer.read_back(part.kind, first, first + len(expected))
        if not np.array_equal(stored, expected):
            raise ArchiveError(
                f"{Path(writer.path) / part.kind} does not hold what was written: frames {first} to "
                f"{first + len(expected) - 1} read back differ, so look after the disk, and write it elsewhere"
            )
        n += 1
    return n


def _found(part: Part, writer: ArchiveWriter, start: int, stop: int) -> npt.NDArray[Any] | None:
    """What an earlier run has written of frames `start` to `stop`, or None if it is not there, or not whole."""
    try:
        return writer.read_back(part.kind, start, stop)
    except ArchiveError:
        return None


class _Buffer(threading.local):
    """One thread's frames, kept from part to part: fresh memory costs more in page faults than copying does."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)


_kept = _Buffer()


def _buffer(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if _kept.memory.size < nbytes:
        _kept.memory = np.empty(nbytes, np.uint8)
    return _kept.memory[:nbytes].view(dtype).reshape(shape)
