"""A run from a prepared archive to a complete dataset."""

from __future__ import annotations

import logging
import math
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
import xxhash
from distributed import Client

from cluster_store import create_dataset, finish_dataset, write_pedestal, write_table
from finder import Pedestal
from finder.offset import Offset, offset_by_chance
from pipeline import provenance
from pipeline.cluster_watch import ClusterWatch, Patience
from pipeline.clusters import require_photonflow
from pipeline.dark_problems import masked_in, warn_of_wrong_darks
from pipeline.deaths import DeathsByTask
from pipeline.errors import BatchError
from pipeline.ownership import at_work, writer_attributes
from pipeline.pedestal_source import train_pedestal
from pipeline.preparation import BLOCK_BYTES, PreparedRun
from pipeline.redaction import redacted
from pipeline.sizing import require_memory
from pipeline.submission import RunProgress, RunRecord, Submission
from pipeline.worker import BatchCount, RunPlugin, RunSetup, plugin_name
from pipeline.worker_exits import WorkerExits
from roofline import StageUse, ThroughputSummary

logger = logging.getLogger(__name__)

# More pixels than this being off is not a matter of bad pixels.
SHARE_OF_BAD_PIXELS = 0.02
# Batches in flight a worker thread: one at work, and one to follow it without a pause.
WINDOW = 2
EPOCH = "seconds since 1970-01-01"  # As CF has it: xarray decodes such a column to times.
# A worker opens the archive and compiles the finder; many that begin at once on a busy file server take a while.
SECONDS_TO_PREPARE = 300.0


class StalePedestalWarning(UserWarning):
    """The pedestal does not fit the frames: clusters are lost or made up."""


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        out: Absolute path of the dataset.
        summary: What was done, in how long.
        digest: Digest of all clusters; the same for the same archive, pedestal and parameters.
    """

    out: str
    summary: ThroughputSummary
    digest: str


def execute(
    prepared: PreparedRun,
    client: Client,
    on_step: Callable[[str], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    began: float | None = None,
    *,
    patience: Patience | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_notice: Callable[[str], object] = logger.warning,
) -> RunResult:
    """Process all batches on the workers of ``client`` and write the dataset.

    Args:
        prepared: The run.
        client: The cluster; what is registered there for the run is removed at its end.
        on_step: Told in a few words what begins.
        on_progress: Told how far the run has come, after each batch.
        began: ``time.perf_counter()`` when the user's wait began; None is now.
        patience: How long to wait for a scheduler, workers and batches that may be lost.
        should_stop: Asked several times a second whether to stop; then nothing new is begun, and what is at work has a
            few seconds to end.
        on_notice: Told in a sentence what the user should know while the run goes on.

    Raises:
        RunError: The run could not be finished; the dataset stays as it is, marked ``running``.
        RunStoppedError: It was asked to stop.
        WrongDarksWarning: (as a warning) the darks can't be right.
        StalePedestalWarning: (as a warning) the pedestal is off before some batch.
    """
    began = time.perf_counter() if began is None else began
    on_step = on_step or (lambda step: None)
    options, layout, run_id = prepared.options, prepared.layout, uuid.uuid4().hex[:8]
    batch_bytes = min(options.batch_size, prepared.plan.n_frames) * prepared.archive.frame_nbytes
    watch = ClusterWatch(client, run_id, patience, should_stop, on_notice, batch_bytes)
    require_photonflow(client, watch)
    needed_bytes, notice = require_memory(prepared, watch.workers)
    if notice is not None:
        on_notice(notice)
    on_step(f"training the pedestal on {prepared.pedestal}")
    trained = train_pedestal(
        prepared.pedestal, options.parameters.n_samples, client, run_id, watch, masked_in(prepared)
    )
    warn_of_wrong_darks(prepared, trained)
    pedestal = trained.pedestal
    setup = RunSetup(
        run_id=run_id,
        archive=prepared.archive.address,
        dataset=prepared.out,
        layout=layout,
        parameters=options.parameters,
        backend=prepared.backend,
        pedestal=pedestal,
        pixel_mask=prepared.pixel_mask,
        block_bytes=BLOCK_BYTES,
    )
    workers = watch.n_threads
    with at_work(run_id), _plugin_on_workers(setup, client, on_step, watch) as exits:
        attributes = _attributes(prepared) | writer_attributes()
        create_dataset(prepared.out, layout, attributes, overwrite=options.overwrite, run_id=run_id)
        write_pedestal(prepared.out, pedestal, run_id=run_id)
        on_step("finding clusters")
        logger.info("run %s: %d batches on %d workers into %s", run_id, len(prepared.plan), workers, prepared.out)
        submitted = time.perf_counter()
        try:
            deaths = DeathsByTask(exits.of, on_notice, len(watch.workers), needed_bytes)
            submission = Submission(
                client, run_id, prepared.plan, layout.rows_per_chunk, WINDOW, on_progress, watch, deaths
            )
            record = submission.run()
        except BatchError as error:
            raise BatchError(f"{error}; what is at {prepared.out} is unfinished, run again with --overwrite") from error
        counts = [count for count in record.counts if count is not None]
        digest = _digest(counts)
        _write_tables(prepared.out, counts, record, run_id)
        finish_dataset(prepared.out, layout, record.n_clusters, {"digest": digest}, run_id=run_id)
        seconds = time.perf_counter() - submitted
    summary = _summary(counts, record, workers, seconds, submitted - began)
    _warn_if_stale(counts, prepared, pedestal)
    return RunResult(prepared.out, summary, digest)


@contextmanager
def _plugin_on_workers(
    setup: RunSetup, client: Client, on_step: Callable[[str], None], watch: ClusterWatch
) -> Iterator[WorkerExits]:
    on_step("preparing the workers")
    exits = WorkerExits(client, setup.run_id)
    watch.answer(exits.listen, "listen to its workers")
    watch.answer(lambda: client.register_plugin(RunPlugin(setup)), "prepare its workers", SECONDS_TO_PREPARE)
    try:
        yield exits
    finally:
        watch.let_go(lambda: client.unregister_worker_plugin(plugin_name(setup.run_id)))
        watch.let_go(exits.stop)


def _attributes(prepared: PreparedRun) -> dict[str, Any]:
    options = prepared.options
    return {
        "history": provenance.history_line(redacted(options.command)),
        "source": f"photonflow, {prepared.backend} finder",
        "n_sigma": options.parameters.n_sigma,
        "n_samples": options.parameters.n_samples,
        "noise": options.parameters.noise,
        "tracking": "batch",
        "pedestal": redacted(str(prepared.pedestal)),
        "archive": redacted(prepared.archive.address.path),
        "archive_fingerprint": prepared.archive.fingerprint,
        "masked_pixels": 0 if prepared.pixel_mask is None else int(((prepared.pixel_mask & 0xFFFF) != 0).sum()),
        "versions": provenance.versions(),
        "host": provenance.host(),
        "device": provenance.cpu_model(),
    }


def _digest(counts: list[BatchCount]) -> str:
    whole = xxhash.xxh3_128()
    for count in counts:
        whole.update(count.digest.encode())
    return f"xxh3-128:{whole.hexdigest()}"


def _write_tables(out: str, counts: list[BatchCount], record: RunRecord, run_id: str) -> None:
    names = sorted({count.worker for count in counts})

    def column(values: list[Any], dtype: str, **attrs: str) -> tuple[str, npt.NDArray[Any], dict[str, str]]:
        return "batch", np.asarray(values, dtype), attrs

    batches = xr.Dataset(
        {
            "first_frame": column([c.batch.start for c in counts], "u8", long_name="first frame, in the archive"),
            "n_frames": column([c.batch.n_frames for c in counts], "u4", long_name="frames"),
            "n_clusters": column([c.n_clusters for c in counts], "u8", long_name="clusters"),
            "worker": column(
                [names.index(c.worker) for c in counts], "u2", long_name="position of the worker in worker_names"
            ),
            "began": column([c.began for c in counts], "f8", long_name="work on the batch began", units=EPOCH),
            "found": column([c.ended for c in counts], "f8", long_name="the batch had been found", units=EPOCH),
            "written": column(record.write_ended, "f8", long_name="its last rows had been written", units=EPOCH),
            "read_seconds": column([c.read_seconds for c in counts], "f8", long_name="read and decode", units="s"),
            "decode_seconds": column(
                [c.decode_seconds for c in counts], "f8", long_name="decode, which is in read_seconds too", units="s"
            ),
            "find_seconds": column([c.find_seconds for c in counts], "f8", long_name="find", units="s"),
            "write_seconds": column(record.write_seconds, "f8", long_name="encode and write", units="s"),
            "read_bytes": column([c.read_bytes for c in counts], "u8", long_name="decoded frames", units="byte"),
            "stored_bytes": column([c.stored_bytes for c in counts], "u8", long_name="files read", units="byte"),
            "write_bytes": column(record.write_bytes, "u8", long_name="clusters before encoding", units="byte"),
            "write_stored_bytes": column(record.write_stored_bytes, "u8", long_name="clusters as stored", units="byte"),
            "minor_faults": column(
                [c.minor_faults for c in counts], "u8", long_name="minor page faults while it was found", units="1"
            ),
        },
        attrs={"worker_names": names},
    )
    write_table(out, "batches", batches, run_id=run_id)
    write_table(
        out,
        "pedestal",
        xr.Dataset(
            {
                "movement": column(
                    [c.movement for c in counts],
                    "f8",
                    long_name="movement of the pedestal within the batch, median over pixels",
                    units="noise widths",
                ),
                "offset": column(
                    [c.offset.median for c in counts],
                    "f8",
                    long_name="offset of the frames from the pedestal before the batch, median over pixels",
                    units="noise widths",
                ),
                "pixels_off": column(
                    [c.offset.pixels_off for c in counts],
                    "f8",
                    long_name="share of pixels more than one noise width off before the batch",
                    units="1",
                ),
            }
        ),
        run_id=run_id,
    )


def _summary(
    counts: list[BatchCount], record: RunRecord, workers: int, seconds: float, startup_seconds: float
) -> ThroughputSummary:
    read_bytes = sum(count.read_bytes for count in counts)
    return ThroughputSummary(
        frames=sum(count.batch.n_frames for count in counts),
        clusters=record.n_clusters,
        batches=len(counts),
        workers=workers,
        seconds=seconds,
        startup_seconds=startup_seconds,
        stages=(
            StageUse("read + decode", sum(count.read_seconds for count in counts), read_bytes),
            StageUse("find", sum(count.find_seconds for count in counts), read_bytes),
            StageUse("write", sum(record.write_seconds), sum(record.write_bytes)),
        ),
        movement=_largest([count.movement for count in counts]),
        offset=_largest([count.offset.median for count in counts]),
        pixels_off=_largest([count.offset.pixels_off for count in counts]),
    )


def _largest(values: list[float]) -> float:
    """The value of the largest size, with its sign."""
    return max((value for value in values if math.isfinite(value)), key=abs, default=math.nan)


def _warn_if_stale(counts: list[BatchCount], prepared: PreparedRun, pedestal: Pedestal) -> None:
    rows, columns = prepared.options.parameters.cluster_size
    n_pixels = int((pedestal.noise > 0).sum())
    # The window's sum is off by area · offset, and its threshold is n_sigma · √area noise widths.
    tolerable = Offset(1 / math.sqrt(rows * columns), SHARE_OF_BAD_PIXELS)

    def is_stale(count: BatchCount) -> bool:
        chance = offset_by_chance(count.batch.n_frames, n_pixels)
        return (
            abs(count.offset.median) > tolerable.median + chance.median
            or count.offset.pixels_off > tolerable.pixels_off + chance.pixels_off
        )

    stale = [count for count in counts if is_stale(count)]
    if stale:
        worst = max(stale, key=lambda count: abs(count.offset.median))
        warnings.warn(
            f"the pedestal ({prepared.pedestal}) does not fit {len(stale)} of {len(counts)} batches; in the worst, "
            f"{worst.batch}, the median pixel is {worst.offset.median:+.2f} noise widths off and "
            f"{worst.offset.pixels_off:.1%} of all are off by more than one: clusters are lost or made up there; give "
            "newer darks with --pedestal, or --pedestal first:N",
            StalePedestalWarning,
            stacklevel=3,
        )
