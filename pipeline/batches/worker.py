"""What a worker does: the tasks of a run.

A batch goes through ``find`` → ``write`` → ``join``:

- ``find_batch`` reads the batch block by block, finds its clusters, which stay on the worker as a Dask result, writes
  how many each frame has, and tells the client the totals.
- Once the totals of all earlier batches are known, so is the batch's first row: ``write_batch`` writes the chunks of
  the dataset that lie wholly inside the batch, and keeps the rows before and after them.
- ``join_edges`` writes a chunk that rows of several batches share.

What a task tells its client (:mod:`pipeline.workers.word`) is in its result, too, where ``report_of`` gets it if the
word was missed.

Every task gives the same result and writes the same bytes when it runs again, so a task that is lost with its worker is
simply repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from distributed import get_worker
from distributed.metrics import context_meter

from cluster_store import FrameStatus
from finder import Pedestal, rounded
from finder.offset import Offset, OffsetMeter
from finder.rounding import narrowed
from frame_archive import ArchiveError, ReadUse
from pipeline.batches.chain_start import chain_blocks
from pipeline.batches.chain_states import ChainStart
from pipeline.batches.counting import BatchDigest, Counting
from pipeline.batches.found import ClusterRows, Edges, FoundBatch, no_rows
from pipeline.batches.pedestal_health import PedestalHealth
from pipeline.batches.plan import Batch, RowSpan
from pipeline.batches.reading import FrameDigest, StageClock, frames_read
from pipeline.batches.reports import BatchCount, BatchReport, BatchWrite
from pipeline.batches.run_plugin import RunPlugin, plugin_of
from pipeline.batches.work_clock import minor_faults
from pipeline.faults import reading_frames, writing
from pipeline.watching.worker_metrics import add_found, add_written, failures_counted
from pipeline.workers.lost_device import ending_a_worker_without_device
from pipeline.workers.word import tell


@dataclass(frozen=True)
class _Found:
    """The Dask result of ``find_batch``: clusters, which stay on the worker, and what is reported of them."""

    clusters: FoundBatch
    clusters_in_frame: npt.NDArray[np.uint32]
    report: BatchReport

    def __sizeof__(self) -> int:
        products = self.report.products
        counted = 0 if products is None else products.nbytes
        return self.clusters.nbytes + self.clusters_in_frame.nbytes + counted


@dataclass(frozen=True)
class _Written:
    """The Dask result of ``write_batch``: rows that share chunks with other batches', and what is reported."""

    edges: Edges
    report: BatchWrite

    def __sizeof__(self) -> int:
        return self.edges.__sizeof__()


def find_batch(run_id: str, batch: Batch, start: ChainStart | None = None) -> _Found:
    """Find the clusters of a batch, write what the dataset holds for each of its frames, and tell of the batch.

    Args:
        run_id: The run.
        batch: The batch.
        start: The earlier batch whose pedestal it starts from; None starts it from the trained pedestal.
    """
    found = find_again(run_id, batch, start)
    plugin = plugin_of(run_id)
    with plugin.clock.at_work(), failures_counted("find"):
        with reading_frames():
            frame_numbers = plugin.archive.frame_numbers(batch.start, batch.stop)
        plugin.write_frames(batch, found.clusters_in_frame, frame_numbers, FrameStatus.OK)
    # What was counted of the clusters may be as large as a frame: too much to be passed around with the news.
    if found.report.products is None:
        tell(run_id, found.report)
    return found


def find_again(run_id: str, batch: Batch, start: ChainStart | None = None) -> _Found:
    """Find the clusters of a batch; its frames are never in memory all at once.

    Nothing is written but the pedestal that a following batch starts from.
    """
    plugin = plugin_of(run_id)
    with plugin.clock.at_work(), failures_counted("find"), ending_a_worker_without_device():
        found = _find(plugin, batch, start)
    add_found(found.report.count)
    return found


def report_of(result: _Found | _Written) -> BatchReport | BatchWrite:
    """What a task reported, from its result."""
    return result.report


def _find(plugin: RunPlugin, batch: Batch, start: ChainStart | None) -> _Found:
    archive, run = plugin.archive, plugin.run
    began, faults, idle_seconds = time.time(), minor_faults(), plugin.clock.take_idle_seconds()
    clock, use = StageClock(), ReadUse()
    pedestal = plugin.start_of(start)
    parameters = run.parameters
    offset = OffsetMeter(run.pedestal, plugin.finder.pixel_mask, parameters.common_mode, parameters.gain_bits)
    blocks: list[ClusterRows] = []
    clusters_in_frame = np.zeros(batch.n_frames, np.uint32)
    digest, counting = BatchDigest(), Counting(plugin.counter, run.products, plugin.finder.counts)
    first_read = run.chains.first_of(batch)
    with reading_frames():
        # Before the first frame is read: a file that is written meanwhile will have another.
        stamp = archive.stamp(batch.start, batch.stop)
    content = FrameDigest() if run.verify else None
    read = frames_read(plugin, batch, clock, use, content)
    for block in chain_blocks(read, plugin.finder, pedestal, run.chains):
        with clock.stage("find"):
            if block.first < batch.start:
                block.chain.update(block.frames)
                continue
            if block.first == batch.start:
                # What the batch begins with; a warm-up has moved it from where it was.
                begins_with = block.chain.pedestal
            offset.add(block.frames)
            first = block.first - batch.start
            in_frame = clusters_in_frame[first : first + len(block.frames)]
            if not run.layout.cluster_list:
                in_frame[:] = counting.count(block.chain, block.frames)
                continue
            found = block.chain.find(block.frames)
            in_frame[:] = found.n_clusters
            signal = rounded(found.signal, np.dtype(run.layout.signal_dtype))
            digest.add(y=found.y, x=found.x, signal=signal)
            counting.add(found, signal)
            # Frames are counted along the dataset.
            frame_index = found.frame_index + np.uint32(block.first - run.layout.first_frame)
            blocks.append(ClusterRows(frame_index, found.y, found.x, narrowed(signal)))
    with clock.stage("find"):
        movement = pedestal_movement(begins_with, block.chain.pedestal)
        before = offset.offset(begins_with)
        activity = block.chain.activity
        health = PedestalHealth.of(activity, offset.offset(), offset.common_movement())
        products = counting.products(block.chain)
        if not run.layout.cluster_list:
            digest.add_products(products)
    state = plugin.keep_state(batch, block.chain.pedestal)
    clusters = FoundBatch(blocks, no_rows(run.layout.frame_shape, run.layout.cluster_size, run.layout.signal_dtype))
    count = BatchCount(
        batch=batch,
        n_clusters=int(clusters_in_frame.sum(dtype=np.int64)),
        nbytes=clusters.nbytes,
        worker=str(get_worker().name),
        began=began,
        ended=time.time(),
        read_seconds=clock.seconds["read"],
        decode_seconds=math.nan if use.together_seconds else use.decode_seconds,
        read_bytes=clock.nbytes,
        stored_bytes=archive.stored_bytes(first_read, batch.stop) if use.together_seconds else use.stored_bytes,
        find_seconds=clock.seconds["find"],
        minor_faults=minor_faults() - faults,
        movement=movement,
        offset=before,
        health=health,
        digest=digest.hexdigest(clusters_in_frame),
        stamp=stamp,
        content="" if content is None else content.hexdigest(archive, batch),
        state=state,
        switched_values=int(activity.switched.sum(dtype=np.int64)),
        idle_seconds=idle_seconds,
        device=block.chain.device_use,
    )
    return _Found(clusters, clusters_in_frame, BatchReport(count, products.narrowed() if run.products.names else None))


def skip_batch(run_id: str, batch: Batch, status: FrameStatus, cause: str) -> BatchReport:
    """Write that the frames of a batch are not in the dataset, and report the batch."""
    plugin = plugin_of(run_id)
    try:
        frame_numbers = plugin.archive.frame_numbers(batch.start, batch.stop)
    except ArchiveError:  # the numbers may lie in the same damage
        frame_numbers = np.arange(batch.start, batch.stop, dtype=np.uint64)
    plugin.write_frames(batch, np.zeros(batch.n_frames, np.uint32), frame_numbers, status)
    nothing = float("nan")
    count = BatchCount(
        batch=batch,
        n_clusters=0,
        nbytes=0,
        worker=str(get_worker().name),
        began=time.time(),
        ended=time.time(),
        read_seconds=0.0,
        decode_seconds=0.0,
        read_bytes=0,
        stored_bytes=0,
        find_seconds=0.0,
        minor_faults=0,
        movement=nothing,
        offset=Offset(nothing, nothing),
        digest=status.name.lower(),
        status=status,
        cause=cause,
    )
    return BatchReport(count)


def write_batch(run_id: str, found: _Found, span: RowSpan, digest: str) -> _Written:
    """Write the chunks of the dataset that lie wholly inside a batch, and keep the rows before and after them.

    Args:
        run_id: The run.
        found: The batch; it may have been lost with its worker since it was told of, and found again.
        span: Its rows.
        digest: Its digest when it was told of.

    Raises:
        ChangedResultError: It has another one now.
    """
    count = found.report.count
    count.require_digest(digest)
    start, stop = span.body
    written = _write(run_id, count.batch.index, start, _rows(found, span, start, stop, span.rows_per_chunk))
    head, tail = (
        ClusterRows.concatenate(list(_rows(found, span, start, stop, max(stop - start, 1)))).copy()
        for start, stop in (span.head, span.tail)
    )
    tell(run_id, written)
    return _Written(Edges(head, tail), written)


def join_edges(run_id: str, first_batch: int, first_row: int, parts: list[_Written]) -> BatchWrite:
    """Write a chunk that rows of several batches share: the tail of the first, the heads of those after it."""
    rows = ClusterRows.concatenate([parts[0].edges.tail, *(part.edges.head for part in parts[1:])])
    written = _write(run_id, first_batch, first_row, iter([rows]))
    tell(run_id, written)
    return written


def pedestal_movement(before: Pedestal, after: Pedestal) -> float:
    """How far the pedestal moved: median over the pixels of (mean after − mean before) / noise before.

    Pixels without noise (dead or masked ones) don't count. In noise widths; NaN if no pixel counts.
    """
    noise = before.noise
    alive = noise > 0
    if not alive.any():
        return float("nan")
    return float(np.median((after.mean - before.mean)[alive] / noise[alive]))


def _rows(found: _Found, span: RowSpan, start: int, stop: int, step: int) -> Iterator[ClusterRows]:
    """The dataset's rows ``[start, stop)``, which are the batch's, ``step`` at a time; at least one, perhaps empty."""
    for first in range(start, max(stop, start + 1), step):
        yield found.clusters.rows(first - span.start, min(first + step, stop) - span.start)


def _write(run_id: str, batch: int, first_row: int, parts: Iterator[ClusterRows]) -> BatchWrite:
    plugin = plugin_of(run_id)
    writer = plugin.writer
    begin, faults = time.perf_counter(), minor_faults()
    nbytes = stored_bytes = 0
    metered = context_meter.meter("write")
    with plugin.clock.at_work(), failures_counted("write"), metered, writing(writer.location):
        for rows in parts:
            if len(rows):
                signal = rows.signal.astype(writer.layout.signal_dtype, copy=False)
                written = writer.write_clusters(first_row, rows.frame_index, rows.y, rows.x, signal)
                nbytes += written.raw
                stored_bytes += written.stored
                first_row += len(rows)
    seconds = time.perf_counter() - begin
    worker = str(get_worker().name)
    write = BatchWrite(batch, nbytes, stored_bytes, seconds, time.time(), worker, minor_faults() - faults)
    add_written(write)
    return write
