"""Decoding an archive's own chunks, and encoding and writing a dataset's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numcodecs import blosc

from cluster_store import ClusterWriter, DatasetLayout, create_dataset
from finder import Clusters
from frame_archive import ArchiveAddress, ReadUse
from pipeline.batches.found import ClusterRows
from pipeline.ceilings.crew import Done

# Of chunks of Blosc: what the same values would take with other codecs.
CODECS = ("lz4", "zstd", "uncompressed")


@dataclass(frozen=True)
class Decode:
    """The archive's frames, read again and again from the page cache, and decoded.

    The decoding alone is timed where the archive says how long it took; where zarr reads and decodes, both are.

    Args:
        archive: Where they are.
        stop: The frames 0 to `stop` are read.
    """

    archive: ArchiveAddress
    stop: int

    def __str__(self) -> str:
        return "decoding"

    def prepared(self, member: int) -> Callable[[], Done]:
        """A chunk at a time; each process begins elsewhere."""
        archive = self.archive.open()
        blocks = list(archive.blocks(0, self.stop, max_bytes=1))
        place = member * len(blocks) // 8
        buffer = np.empty((max(b - a for a, b in blocks), *archive.frame_shape), archive.dtype)
        for a, b in blocks:
            archive.read(a, b, buffer[: b - a])

        def step() -> Done:
            nonlocal place
            a, b = blocks[place % len(blocks)]
            place += 1
            use = ReadUse()
            archive.read(a, b, buffer[: b - a], use)
            return Done((b - a) * archive.frame_nbytes, None if use.together_seconds else use.decode_seconds)

        return step


@dataclass(frozen=True)
class Codec:
    """One chunk of the archive's frames in another codec, decoded from memory.

    Args:
        archive: Where they are.
        name: Of :data:`CODECS`.
    """

    archive: ArchiveAddress
    name: str

    def __str__(self) -> str:
        return f"decoding of {self.name}"

    def prepared(self, member: int) -> Callable[[], Done]:
        """The first chunk, over and over."""
        archive = self.archive.open()
        start, stop = next(iter(archive.blocks(0, archive.n_frames, max_bytes=1)))
        frames = np.empty((stop - start, *archive.frame_shape), archive.dtype)
        archive.read(start, stop, frames)
        target = np.empty_like(frames)
        if self.name == "uncompressed":

            def copy() -> Done:
                np.copyto(target, frames)
                return Done(frames.nbytes)

            return copy
        encoded = blosc.compress(frames, self.name.encode(), 5, blosc.BITSHUFFLE)

        def step() -> Done:
            blosc.decompress(encoded, target.reshape(-1).view(np.uint8))
            return Done(frames.nbytes)

        return step


@dataclass(frozen=True)
class Write:
    """Chunks of clusters, encoded and written as a run writes them.

    Args:
        folder: An empty folder where the dataset would lie; each process writes a dataset of its own there.
        layout: Of the dataset.
        clusters: At least one; they fill the chunks.
    """

    folder: str
    layout: DatasetLayout
    clusters: Clusters

    def __str__(self) -> str:
        return "writing"

    def prepared(self, member: int) -> Callable[[], Done]:
        """A chunk at a time, over a few places."""
        rows, layout = self.layout.rows_per_chunk, replace(self.layout, n_frames=self.layout.batch_size)
        path = f"{self.folder}/{member}-{time.monotonic_ns()}.zarr"
        create_dataset(path, layout, {})
        writer = ClusterWriter(path, layout)
        pick = np.arange(rows) % len(self.clusters)
        chunk = ClusterRows(
            np.sort(self.clusters.frame_index[pick]),
            self.clusters.y[pick],
            self.clusters.x[pick],
            self.clusters.signal[pick].round().astype(self.layout.signal_dtype),
        )
        place = 0

        def step() -> Done:
            nonlocal place
            place = (place + 1) % 4
            written = writer.write_clusters(place * rows, chunk.frame_index, chunk.y, chunk.x, chunk.signal)
            return Done(written.raw)

        return step
