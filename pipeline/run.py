"""A run from a prepared archive to a complete dataset."""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import xxhash
import zarr
from distributed import Client

from cluster_store import FrameStatus, finish_dataset, read_layout, write_table
from pipeline.batches.chain_states import ChainStates, StatePruner
from pipeline.batches.reports import BatchCount
from pipeline.batches.run_plugin import RunPlugin, RunSetup, plugin_name
from pipeline.batches.submission import RunProgress, Submission, Work
from pipeline.checks.dark_problems import masked_in, warn_of_wrong_darks
from pipeline.checks.pedestal_warnings import warn_of_pedestal
from pipeline.checks.sizing import require_memory
from pipeline.errors import BatchError, ClusterUnavailableError, OutputError
from pipeline.faults import writing
from pipeline.inputs.dark_training import Training, train_pedestal
from pipeline.inputs.untrained_pixels import notices_of_darks, without_untrained
from pipeline.output.ownership import sole_writer
from pipeline.output.products import products_table
from pipeline.output.run_attributes import run_attributes
from pipeline.output.summary import (
    RunTimes,
    account_of,
    ceilings_of,
    nothing_done,
    require_all_read,
    summarised,
    throughput_attribute,
    with_tallest,
)
from pipeline.output.tables import Writing, bytes_written, write_tables
from pipeline.preparation import BLOCK_BYTES, PreparedRun, chain_options
from pipeline.resuming.advice import what_is_left
from pipeline.resuming.beginning import begin_again, begin_anew, begin_where_skipped, run_of_dataset
from pipeline.resuming.journal import journal_folder, remove_journal
from pipeline.resuming.made_from import made_from
from pipeline.resuming.verification import FrameComparison
from pipeline.workers.cluster_watch import ClusterWatch, Patience, despite_deaths
from pipeline.workers.deaths import DeathsByTask
from pipeline.workers.versions import require_photonflow
from pipeline.workers.worker_exits import WorkerExits
from roofline import ThroughputSummary

logger = logging.getLogger(__name__)

# Batches in flight a worker thread: one at work, and one to follow it without a pause.
WINDOW = 2
# A worker opens the archive and compiles the finder; many that begin at once on a busy file server take a while.
SECONDS_TO_PREPARE = 300.0


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        out: Absolute path of the dataset.
        summary: What was done, in how long.
        digest: Digest of all clusters; the same for the same archive, pedestal and parameters.
        skipped: The batches that are not in it, with what became of them and why.
        was_complete: The dataset was complete already, and nothing had to be done.
        clusters_listed: The dataset has a list of the clusters, and not only what was counted of them.
    """

    out: str
    summary: ThroughputSummary
    digest: str
    skipped: tuple[BatchCount, ...] = ()
    was_complete: bool = False
    clusters_listed: bool = True


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
    """Process all batches on the workers of ``client`` and write the dataset, or what is left of it.

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
        RunError: The run could not be finished; the dataset stays as it is, marked ``running``, to be gone on with.
        RunStoppedError: It was asked to stop.
        FileExistsError: Another run is writing the dataset.
        WrongDarksWarning: (as a warning) the darks can't be right.
        StalePedestalWarning: (as a warning) the pedestal is off before some batch.
    """
    began = time.perf_counter() if began is None else began
    on_step = on_step or (lambda step: None)
    run_id = uuid.uuid4().hex[:8]
    batch_bytes = min(prepared.options.batch_size, prepared.plan.n_frames) * prepared.archive.frame_nbytes
    watch = ClusterWatch(client, run_id, patience, should_stop, on_notice, batch_bytes)
    with sole_writer(prepared.out, run_id) as dead:
        if dead is not None:
            on_notice(f"{prepared.out} was being written by {dead}, which has ended: its place is taken")
        begun = Event()
        try:
            with writing(prepared.out):
                return _execute(prepared, client, run_id, watch, on_step, on_progress, on_notice, began, begun)
        except (BatchError, OutputError, ClusterUnavailableError) as error:
            raise type(error)(f"{error}; {what_is_left(prepared, begun.is_set())}") from error


def _execute(
    prepared: PreparedRun,
    client: Client,
    run_id: str,
    watch: ClusterWatch,
    on_step: Callable[[str], None],
    on_progress: Callable[[RunProgress], None] | None,
    on_notice: Callable[[str], object],
    began: float,
    begun: Event,
) -> RunResult:
    options, out = prepared.options, prepared.out
    require_photonflow(client, watch, on_notice)
    needed_bytes, notice = require_memory(prepared, watch.workers)
    if notice is not None:
        on_notice(notice)
    on_step(f"training the pedestal on {prepared.pedestal}")
    parameters = options.parameters
    training = Training(
        parameters.n_samples, masked_in(prepared), parameters.common_mode, parameters.gain_bits, options.dark_clip
    )
    trained = train_pedestal(prepared.pedestal, training, client, run_id, watch)
    warn_of_wrong_darks(prepared, trained)
    for notice in notices_of_darks(trained, training):
        on_notice(notice)
    prepared = without_untrained(prepared, trained)
    pedestal = trained.pedestal
    made = made_from(prepared, pedestal)
    attributes = run_attributes(prepared, trained) | {"made_from": json.dumps(made)}
    if options.resume and run_of_dataset(out) is not None:
        prepared = replace(prepared, layout=read_layout(out))
    layout = prepared.layout
    setup = RunSetup(
        run_id=run_id,
        archive=prepared.archive.address,
        dataset=out,
        layout=layout,
        parameters=parameters,
        backend=prepared.backend,
        pedestal=pedestal,
        pixel_mask=prepared.pixel_mask,
        block_bytes=BLOCK_BYTES,
        chains=chain_options(prepared),
        products=options.products,
        verify=options.verify,
        chain_folder=str(journal_folder(out)) if options.tracking == "chain" else None,
    )
    workers = watch.n_threads
    with _plugin_on_workers(setup, client, on_step, watch) as exits:
        compare = FrameComparison(prepared, client, run_id, watch, on_step) if options.verify else None
        beginning = begin_again(prepared, attributes, made, run_id, compare) if options.resume else None
        if beginning is None:
            beginning = begin_anew(prepared, attributes, made, pedestal, run_id)
        elif beginning.is_complete:
            remove_journal(out)  # a run that ended between its last two steps leaves it
            return _already_complete(out, prepared, workers, time.perf_counter() - began)
        elif beginning.skipped:
            on_step(f"trying {len(beginning.skipped)} skipped batches again")
            beginning = begin_where_skipped(prepared, beginning, client, watch, run_id)
        begun.set()
        journal = beginning.journal
        on_step("finding clusters")
        logger.info("run %s: %d batches on %d workers into %s", run_id, len(beginning.left.to_find), workers, out)
        submitted = time.perf_counter()
        ceilings = ceilings_of(prepared, watch.workers)
        if on_progress is not None:
            on_progress = with_tallest(on_progress, ceilings)
        work = Work(
            run_id=run_id,
            plan=prepared.plan,
            rows_per_chunk=layout.rows_per_chunk,
            to_find=beginning.left.to_find,
            kept=beginning.left.kept,
            expected=beginning.expected,
            on_bad_batch=options.on_bad_batch,
            chained=options.tracking == "chain",
            cluster_list=layout.cluster_list,
            window=WINDOW,
        )
        prune = StatePruner(ChainStates(journal.folder)) if work.chained else None
        try:
            deaths = DeathsByTask(exits.of, on_notice, len(watch.workers), needed_bytes)
            submission = Submission(
                client, work, watch, deaths, journal.append, beginning.totals.add, on_progress, prune
            )
            record = submission.run()
        finally:
            journal.close()
            with contextlib.suppress(OSError):  # without it a run that goes on finds a little more
                beginning.totals.save()
        counts = [count for count in record.counts if count is not None]
        times = RunTimes(began, submitted, time.perf_counter(), time.time())
        found = [counts[k] for k in beginning.left.to_find]
        require_all_read(prepared, found, record.totals)
        digest = _digest(counts)
        nbytes, stored_bytes = bytes_written(out, layout, [count.n_clusters for count in counts])
        written = Writing(record.write_seconds, record.write_ended, nbytes, stored_bytes)
        write_tables(out, counts, written, layout.frame_shape, run_id=run_id)
        if options.products.names:
            write_table(out, "products", products_table(beginning.totals.products, options.products), run_id=run_id)
        account = account_of(found, record.totals, ceilings, watch.workers, times)
        result: dict[str, Any] = {"digest": digest, "throughput": throughput_attribute(account, ceilings)}
        if parameters.gain_bits:
            result["switched_values"] = sum(count.switched_values for count in counts)
        finish_dataset(out, layout, record.n_clusters, result, run_id=run_id)
        missing = tuple(count for count in counts if count.status is not FrameStatus.OK)
        if not missing:
            remove_journal(out)
        account = account_of(found, record.totals, ceilings, watch.workers, times)
    summary = summarised(counts, found, beginning.left, account, times, parameters.gain_bits)
    warn_of_pedestal(counts, prepared, int((pedestal.noise > 0).sum()))
    return RunResult(out, summary, digest, missing, clusters_listed=layout.cluster_list)


@contextmanager
def _plugin_on_workers(
    setup: RunSetup, client: Client, on_step: Callable[[str], None], watch: ClusterWatch
) -> Iterator[WorkerExits]:
    on_step("preparing the workers")
    exits = WorkerExits(client, setup.run_id)
    watch.answer(lambda: despite_deaths(exits.listen), "listen to its workers")
    watch.answer(
        lambda: despite_deaths(lambda: client.register_plugin(RunPlugin(setup))),
        "prepare its workers",
        SECONDS_TO_PREPARE,
    )
    try:
        yield exits
    finally:
        watch.let_go(lambda: client.unregister_worker_plugin(plugin_name(setup.run_id)))
        watch.let_go(exits.stop)


def _already_complete(out: str, prepared: PreparedRun, workers: int, startup_seconds: float) -> RunResult:
    nothing = nothing_done(prepared, workers, startup_seconds)
    digest = zarr.open_group(out, mode="r").attrs.get("digest")
    return RunResult(out, nothing, str(digest), was_complete=True, clusters_listed=prepared.layout.cluster_list)


def _digest(counts: list[BatchCount]) -> str:
    whole = xxhash.xxh3_128()
    for count in counts:
        whole.update(count.digest.encode())
    return f"xxh3-128:{whole.hexdigest()}"
