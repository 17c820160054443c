"""Reading for a GPU: several threads decode the next block into page-locked memory while one is searched.

A GPU takes frames faster than a core decodes them, and takes them from page-locked memory without a copy. So a batch
has two such buffers, and the worker has threads that decode chunks for all of its batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_archive import FrameArchive, ReadUse
from gpu.finder import CudaFinder
from gpu.pinned_frames import PinnedFrames
from pipeline.batches.block_sizes import BUFFERS

Frames = npt.NDArray[np.integer[Any]]


class ReadAhead:
    """Reads blocks of frames, one ahead of the one that is being used.

    Args:
        archive: The archive.
        finder: What the frames are for.
        n_threads: Threads that read and decode.
    """

    def __init__(self, archive: FrameArchive, finder: CudaFinder, n_threads: int) -> None:
        self._archive, self._finder = archive, finder
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="photonflow-decode")
        self._lock = threading.Lock()
        self._spare: list[PinnedFrames] = []

    def close(self) -> None:
        """Let threads and memory go; nothing may be at work."""
        self._threads.shutdown()
        with self._lock:
            for buffer in self._spare:
                buffer.release()
            self._spare.clear()

    def blocks(self, ranges: Iterable[tuple[int, int]], use: ReadUse) -> Generator[tuple[int, Frames], None, None]:
        """The frames of successive ranges.

        Args:
            ranges: (start, stop) of each block.
            use: Told what reading took of the time that the caller waited: as the reading threads shared out theirs.

        Yields:
            Position of a block's first frame, and its frames (frame, y, x), good until the next is asked for.

        Raises:
            ArchiveError: As :meth:`frame_archive.FrameArchive.read`.
        """
        todo = list(ranges)
        most = max((stop - start for start, stop in todo), default=0)
        with self._two_buffers(most) as buffers:
            reading = self._begin(*todo[0], buffers[0]) if todo else []
            try:
                for k, (start, stop) in enumerate(todo):
                    began = time.perf_counter()
                    uses = [piece.result() for piece in reading]
                    _add_waited(use, uses, time.perf_counter() - began)
                    reading = self._begin(*todo[k + 1], buffers[(k + 1) % BUFFERS]) if k + 1 < len(todo) else []
                    yield start, buffers[k % BUFFERS][: stop - start]
            finally:
                wait(reading)

    def _begin(self, start: int, stop: int, buffer: Frames) -> list[Future[ReadUse]]:
        """Begin to read a block, each row of stored chunks by itself."""
        return [
            self._threads.submit(self._read, a, b, buffer[a - start : b - start])
            for a, b in self._archive.blocks(start, stop, max_bytes=1)
        ]

    def _read(self, start: int, stop: int, out: Frames) -> ReadUse:
        use = ReadUse()
        self._archive.read(start, stop, out, use)
        return use

    @contextmanager
    def _two_buffers(self, n_frames: int) -> Iterator[list[Frames]]:
        taken = [self._taken(n_frames) for _ in range(BUFFERS)]
        try:
            yield [buffer.array for buffer in taken]
        finally:
            with self._lock:
                self._spare += taken

    def _taken(self, n_frames: int) -> PinnedFrames:
        with self._lock:
            fitting = [buffer for buffer in self._spare if len(buffer.array) >= n_frames]
            if fitting:
                self._spare.remove(fitting[0])
                return fitting[0]
            for small in self._spare[:1]:
                small.release()
                self._spare.remove(small)
        return PinnedFrames(self._finder, (n_frames, *self._archive.frame_shape), self._archive.dtype)


def _add_waited(use: ReadUse, uses: list[ReadUse], waited: float) -> None:
    """Share out the time that was waited as the threads shared out theirs, which is several times as much."""
    spent = sum(piece.read_seconds + piece.decode_seconds + piece.together_seconds for piece in uses)
    part = waited / spent if spent > 0 else 0.0
    for piece in uses:
        use.add(
            read_seconds=part * piece.read_seconds,
            decode_seconds=part * piece.decode_seconds,
            together_seconds=part * piece.together_seconds,
            stored_bytes=piece.stored_bytes,
        )
