"""What a worker does: the plugin that holds what all batches of a run share, and the tasks.

A batch goes through ``find`` → ``count`` → ``write`` and ``edges`` → ``join``:

- ``find_batch`` reads the batch block by block and finds its clusters; they stay on the worker as a Dask result.
- ``count_batch`` writes how many clusters each frame has and hands the client the totals.
- Once the counts of all earlier batches are known, so is the batch's first row: ``write_batch`` writes the chunks of
  the dataset that lie wholly inside the batch, ``batch_edges`` takes out the rows before and after them.
- ``join_edges`` writes a chunk that rows of several batches share.

Every task gives the same result and writes the same bytes when it runs again, so a task that is lost with its worker is
simply repeated.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from distributed import Worker, WorkerPlugin, get_worker
from distributed.metrics import context_meter

from cluster_store import ClusterWriter, DatasetLayout, FrameStatus
from finder import Finder, FinderParameters, Pedestal, open_finder, rounded
from finder.offset import Offset, OffsetMeter, lower_median
from frame_archive import ArchiveAddress, FrameArchive, ReadUse
from pipeline.found import ClusterRows, Edges, FoundBatch, narrowed
from pipeline.plan import Batch, RowSpan


@dataclass(frozen=True)
class RunSetup:
    """All that a worker must know of a run; small, except for the pedestal's planes.

    Args:
        run_id: Tells runs on one cluster apart.
        archive: Where the frames are.
        dataset: Where the clusters go.
        layout: The layout of the dataset.
        parameters: What the finder is told.
        backend: Which finder.
        pedestal: The trained pedestal, from which every batch starts.
        pixel_mask: NeXus bits (y, x), or None.
        block_bytes: The most bytes of frames to read at a time, if the archive's chunks allow.
    """

    run_id: str
    archive: ArchiveAddress
    dataset: str
    layout: DatasetLayout
    parameters: FinderParameters
    backend: str
    pedestal: Pedestal
    pixel_mask: npt.NDArray[np.integer[Any]] | None
    block_bytes: int


@dataclass(frozen=True)
class BatchCount:
    """What the client learns of a batch when it has been found.

    Args:
        batch: Which one.
        n_clusters: Clusters in it.
        nbytes: Bytes that its clusters take on their worker.
        worker: Name of the worker that found it.
        began: When work on it began, in s since 1970.
        ended: When it had been found.
        read_seconds: Time for reading and decoding, in s.
        decode_seconds: The decoding's part of it, in s; NaN where zarr did both.
        read_bytes: Bytes of decoded frames.
        stored_bytes: Bytes of the files that were read for them.
        find_seconds: Time for finding, in s.
        minor_faults: Pages of memory that the operating system had to supply.
        movement: See :func:`pedestal_movement`.
        offset: The pedestal's offset before the batch.
        digest: xxh3-128 of the batch's clusters, whatever the blocks in which it was read.
    """

    batch: Batch
    n_clusters: int
    nbytes: int
    worker: str
    began: float
    ended: float
    read_seconds: float
    decode_seconds: float
    read_bytes: int
    stored_bytes: int
    find_seconds: float
    minor_faults: int
    movement: float
    offset: Offset
    digest: str


@dataclass(frozen=True)
class BatchWrite:
    """What the client learns of rows that were written.

    Args:
        batch: Index of the batch that wrote them, or of the first of those that share the chunk.
        nbytes: Uncompressed bytes.
        stored_bytes: Bytes as stored.
        seconds: Time, in s.
        ended: When it had been written, in s since 1970.
    """

    batch: int
    nbytes: int
    stored_bytes: int
    seconds: float
    ended: float


@dataclass(frozen=True)
class _Found:
    """The Dask result of ``find_batch``: clusters, which stay on the worker, and what ``count_batch`` reports."""

    clusters: FoundBatch
    clusters_in_frame: npt.NDArray[np.uint32]
    count: BatchCount

    def __sizeof__(self) -> int:
        return self.clusters.nbytes + self.clusters_in_frame.nbytes


class RunPlugin(WorkerPlugin):
    """Holds archive, finder and writer of one run on a worker.

    The scheduler gives it to every worker, also to one that starts or restarts later.
    """

    def __init__(self, setup: RunSetup) -> None:
        self.run = setup
        self.name = plugin_name(setup.run_id)

    def setup(self, worker: Worker) -> None:
        """Open the archive and make the finder."""
        self.archive: FrameArchive = self.run.archive.open()
        self.finder: Finder = open_finder(
            self.run.backend, self.run.parameters, self.archive.frame_shape, self.run.pixel_mask
        )
        self.writer = ClusterWriter(self.run.dataset, self.run.layout, self.run.run_id)
        # One frame now, so that what has to be compiled is compiled before the first batch.
        frame = np.zeros((1, *self.archive.frame_shape), self.archive.dtype)
        self.finder.find(frame, self.run.pedestal)
        lower_median(frame)

    def __getstate__(self) -> dict[str, Any]:
        return {"run": self.run, "name": self.name}


def plugin_name(run_id: str) -> str:
    """The name under which the plugin of a run is registered."""
    return f"photonflow-{run_id}"


def find_batch(run_id: str, batch: Batch) -> _Found:
    """Find the clusters of a batch; its frames are never in memory all at once."""
    plugin = _plugin(run_id)
    archive, run = plugin.archive, plugin.run
    began, faults = time.time(), _minor_faults()
    clock, use = _StageClock(), ReadUse()
    chain = plugin.finder.chain(run.pedestal)
    offset = OffsetMeter(run.pedestal, plugin.finder.pixel_mask)
    buffer = np.empty((0, *archive.frame_shape), archive.dtype)
    blocks: list[ClusterRows] = []
    clusters_in_frame = np.zeros(batch.n_frames, np.uint32)
    digest = _ClusterDigest()
    for start, stop in archive.blocks(batch.start, batch.stop, max_bytes=run.block_bytes):
        if stop - start > len(buffer):
            buffer = np.empty((stop - start, *archive.frame_shape), archive.dtype)
        frames = buffer[: stop - start]
        with clock.stage("read"):
            archive.read(start, stop, frames, use)
        with clock.stage("find"):
            offset.add(frames)
            found = chain.find(frames)
            first = start - batch.start
            clusters_in_frame[first : first + len(frames)] = found.n_clusters
            signal = rounded(found.signal, np.dtype(run.layout.signal_dtype))
            digest.add(y=found.y, x=found.x, signal=signal)
            # Frames are counted along the dataset.
            frame_index = found.frame_index + np.uint32(start - run.layout.first_frame)
            blocks.append(ClusterRows(frame_index, found.y, found.x, narrowed(signal)))
    with clock.stage("find"):
        movement = pedestal_movement(run.pedestal, chain.pedestal)
        before = offset.offset()
    clusters = FoundBatch(blocks, template=blocks[0][:0])
    count = BatchCount(
        batch=batch,
        n_clusters=len(clusters),
        nbytes=clusters.nbytes,
        worker=str(get_worker().name),
        began=began,
        ended=time.time(),
        read_seconds=clock.seconds["read"],
        decode_seconds=math.nan if use.together_seconds else use.decode_seconds,
        read_bytes=batch.n_frames * archive.frame_nbytes,
        stored_bytes=archive.stored_bytes(batch.start, batch.stop) if use.together_seconds else use.stored_bytes,
        find_seconds=clock.seconds["find"],
        minor_faults=_minor_faults() - faults,
        movement=movement,
        offset=before,
        digest=digest.hexdigest(clusters_in_frame),
    )
    return _Found(clusters, clusters_in_frame, count)


def count_batch(run_id: str, found: _Found) -> BatchCount:
    """Write what the dataset holds for each frame of a batch, and report the batch."""
    plugin = _plugin(run_id)
    batch = found.count.batch
    plugin.writer.write_frames(
        batch.start - plugin.run.layout.first_frame,
        found.clusters_in_frame,
        plugin.archive.frame_numbers(batch.start, batch.stop),
        np.full(batch.n_frames, FrameStatus.OK, np.uint8),
    )
    return found.count


def write_batch(run_id: str, found: _Found, span: RowSpan) -> BatchWrite:
    """Write the chunks of the dataset that lie wholly inside a batch."""
    start, stop = span.body
    return _write(run_id, found.count.batch.index, start, _rows(found, span, start, stop, span.rows_per_chunk))


def batch_edges(found: _Found, span: RowSpan) -> Edges:
    """The rows of a batch before and after its whole chunks."""
    head, tail = (
        ClusterRows.concatenate(list(_rows(found, span, start, stop, max(stop - start, 1)))).copy()
        for start, stop in (span.head, span.tail)
    )
    return Edges(head, tail)


def join_edges(run_id: str, first_batch: int, first_row: int, edges: list[Edges]) -> BatchWrite:
    """Write a chunk that rows of several batches share: the tail of the first, the heads of those after it."""
    rows = ClusterRows.concatenate([edges[0].tail, *(edge.head for edge in edges[1:])])
    return _write(run_id, first_batch, first_row, iter([rows]))


def pedestal_movement(before: Pedestal, after: Pedestal) -> float:
    """How far the pedestal moved: median over the pixels of (mean after − mean before) / noise before.

    Pixels without noise (dead or masked ones) don't count. In noise widths; NaN if no pixel counts.
    """
    noise = before.noise
    alive = noise > 0
    if not alive.any():
        return float("nan")
    return float(np.median((after.mean - before.mean)[alive] / noise[alive]))


class _StageClock:
    """Adds up the time spent in each stage, for us and for Dask's own dashboard."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "find": 0.0}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        with context_meter.meter(name):
            yield
        self.seconds[name] += time.perf_counter() - begin


class _ClusterDigest:
    """A digest of a batch's clusters that does not depend on the blocks in which they come."""

    def __init__(self) -> None:
        self._columns = {name: xxhash.xxh3_128() for name in ("y", "x", "signal")}

    def add(self, **columns: npt.NDArray[Any]) -> None:
        for name, values in columns.items():
            self._columns[name].update(np.ascontiguousarray(values).data)

    def hexdigest(self, clusters_in_frame: npt.NDArray[np.uint32]) -> str:
        whole = xxhash.xxh3_128(clusters_in_frame.data)
        for column in self._columns.values():
            whole.update(column.digest())
        return whole.hexdigest()


def _plugin(run_id: str) -> RunPlugin:
    plugin = get_worker().plugins[plugin_name(run_id)]
    assert isinstance(plugin, RunPlugin)
    return plugin


def _rows(found: _Found, span: RowSpan, start: int, stop: int, step: int) -> Iterator[ClusterRows]:
    """The dataset's rows ``[start, stop)``, which are the batch's, ``step`` at a time; at least one, perhaps empty."""
    for first in range(start, max(stop, start + 1), step):
        yield found.clusters.rows(first - span.start, min(first + step, stop) - span.start)


def _write(run_id: str, batch: int, first_row: int, parts: Iterator[ClusterRows]) -> BatchWrite:
    writer = _plugin(run_id).writer
    begin = time.perf_counter()
    nbytes = stored_bytes = 0
    with context_meter.meter("write"):
        for rows in parts:
            if len(rows):
                signal = rows.signal.astype(writer.layout.signal_dtype, copy=False)
                written = writer.write_clusters(first_row, rows.frame_index, rows.y, rows.x, signal)
                nbytes += written.raw
                stored_bytes += written.stored
                first_row += len(rows)
    return BatchWrite(batch, nbytes, stored_bytes, time.perf_counter() - begin, time.time())


def _minor_faults() -> int:
    """Minor page faults of this thread so far; where threads are not told apart, of the process."""
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_minflt
