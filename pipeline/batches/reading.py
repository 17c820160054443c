"""The frames of a batch as a worker reads them, and the digest that knows them again."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash
from distributed.metrics import context_meter

from frame_archive import FrameArchive, ReadUse
from frame_archive.kept_memory import page_aligned
from pipeline.batches.block_sizes import GPU_BLOCK_BYTES
from pipeline.batches.plan import Batch
from pipeline.batches.run_plugin import RunPlugin, plugin_of
from pipeline.faults import reading_frames

if TYPE_CHECKING:
    from pipeline.batches.reading_ahead import ReadAhead


class StageClock:
    """Adds up the time spent in each stage, for us and for Dask's own dashboard, and the bytes of frames read."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "find": 0.0}
        self.nbytes = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        begin = time.perf_counter()
        with context_meter.meter(name):
            yield
        self.seconds[name] += time.perf_counter() - begin

    @contextmanager
    def reading(self, use: ReadUse) -> Iterator[None]:
        """Time what is read within; on Dask's dashboard the decoding stands apart, where it is known."""
        with self.stage("read"), reading_frames():
            before = use.decode_seconds
            yield
            if use.decode_seconds > before:
                context_meter.digest_metric("decode", use.decode_seconds - before, "seconds")


class FrameDigest:
    """xxh3-64 of frames and their numbers, whatever the blocks in which they come and the way they are stored."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()

    def add(self, frames: npt.NDArray[np.integer[Any]]) -> None:
        """Take the next frames (frame, y, x), C-contiguous."""
        self._hash.update(frames.data)

    def hexdigest(self, archive: FrameArchive, batch: Batch) -> str:
        """Take the frames' numbers, and return 16 hexadecimal digits."""
        self._hash.update(archive.frame_numbers(batch.start, batch.stop).data)
        return self._hash.hexdigest()


def frames_read(
    plugin: RunPlugin, batch: Batch, clock: StageClock, use: ReadUse, digest: FrameDigest | None = None
) -> Iterator[tuple[int, npt.NDArray[np.integer[Any]]]]:
    """The frames that a batch takes, those that warm it up first, in blocks that begin anew with the batch.

    Args:
        plugin: The run's.
        batch: The batch.
        clock: Told how long reading took.
        use: Told what it took.
        digest: Given the frames.

    Yields:
        Position of a block's first frame in the archive, and its frames (frame, y, x); blocks lie in one buffer.
    """
    archive, block_bytes = plugin.archive, plugin.run.block_bytes
    if plugin.ahead is not None:
        yield from _read_ahead(plugin.ahead, plugin, batch, clock, use, digest)
        return
    buffer = np.empty((0, *archive.frame_shape), archive.dtype)
    with archive.ahead() as ahead:
        for begin, end in ((plugin.run.chains.first_of(batch), batch.start), (batch.start, batch.stop)):
            if begin == end:
                continue
            for start, stop in archive.blocks(begin, end, max_bytes=block_bytes):
                if stop - start > len(buffer):
                    shape = (stop - start, *archive.frame_shape)
                    # Of chunks that are not compressed, files are read straight into it.
                    buffer = page_aligned(math.prod(shape) * archive.dtype.itemsize).view(archive.dtype).reshape(shape)
                frames = buffer[: stop - start]
                with clock.reading(use):
                    archive.expect(start, end, ahead)
                    archive.read(start, stop, frames, use, ahead)
                    # What has been taken makes room for more, which comes while these frames are searched.
                    archive.expect(stop, end, ahead)
                    clock.nbytes += frames.nbytes
                    if digest is not None:
                        digest.add(frames)
                yield start, frames


def _read_ahead(
    ahead: ReadAhead, plugin: RunPlugin, batch: Batch, clock: StageClock, use: ReadUse, digest: FrameDigest | None
) -> Iterator[tuple[int, npt.NDArray[np.integer[Any]]]]:
    """The same, while earlier blocks are searched: what is timed is how long they had to be waited for."""
    spans = ((plugin.run.chains.first_of(batch), batch.start), (batch.start, batch.stop))
    ranges = [block for a, b in spans if a < b for block in plugin.archive.blocks(a, b, max_bytes=GPU_BLOCK_BYTES)]
    blocks = ahead.blocks(ranges, use)
    with contextlib.closing(blocks):
        for _ in ranges:
            with clock.reading(use):
                start, frames = next(blocks)
                clock.nbytes += frames.nbytes
                if digest is not None:
                    digest.add(frames)
            yield start, frames


def digest_frames(run_id: str, batch: Batch) -> str:
    """Read the frames of a batch for nothing but their digest."""
    plugin, digest = plugin_of(run_id), FrameDigest()
    for _ in frames_read(plugin, batch, StageClock(), ReadUse(), digest):
        pass
    with reading_frames():
        return digest.hexdigest(plugin.archive, batch)
