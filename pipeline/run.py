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
from pathlib import Path
from threading import Event

from distributed import Client, span

from cluster_store import read_layout
from finder import Pedestal
from pipeline.batches.chain_states import ChainStates, StatePruner
from pipeline.batches.run_plugin import RunPlugin, RunSetup, plugin_name
from pipeline.batches.run_record import RunProgress, RunRecord, Work
from pipeline.batches.submission import Submission
from pipeline.ceilings.of_stages import RunCeilings
from pipeline.checks.dark_problems import masked_in, warn_of_wrong_darks
from pipeline.checks.pedestal_warnings import warn_of_pedestal
from pipeline.checks.sizing import require_memory
from pipeline.errors import BatchError, ClusterUnavailableError, OutputError
from pipeline.faults import writing
from pipeline.inputs.dark_training import TrainedPedestal, Training, train_pedestal
from pipeline.inputs.untrained_pixels import notices_of_darks, without_untrained
from pipeline.output.finishing import Against, RunResult, already_complete, finish_run
from pipeline.output.ownership import sole_writer
from pipeline.output.run_attributes import history_of, run_attributes
from pipeline.output.run_history import end_noted
from pipeline.output.summary import (
    RunTimes,
    ceilings_of,
    with_tallest,
)
from pipeline.preparation import BLOCK_BYTES, PreparedRun, chain_options
from pipeline.resuming.advice import what_is_left
from pipeline.resuming.beginning import Beginning, begin_again, begin_anew, begin_where_skipped, run_of_dataset
from pipeline.resuming.journal import journal_place
from pipeline.resuming.made_from import made_from
from pipeline.resuming.verification import FrameComparison
from pipeline.watching.run_events import OnEvent
from pipeline.watching.run_reporter import RunReporter, described, told_to_scheduler, with_reporter
from pipeline.watching.run_telling import RunTelling
from pipeline.workers.cluster_watch import ClusterWatch, Patience, despite_deaths
from pipeline.workers.compiling_news import CompilingNews
from pipeline.workers.deaths import DeathsByTask
from pipeline.workers.versions import require_photonflow
from pipeline.workers.word import Word
from pipeline.workers.worker_backends import backend_of_workers, gpus_of_workers
from pipeline.workers.worker_exits import WorkerExits

logger = logging.getLogger(__name__)

# Batches in flight a worker thread: one at work, and one to follow it without a pause.
WINDOW = 2
# On a GPU a thread has a batch of its own; one more for the worker is enough for any of them to go on without a pause.
AHEAD_ON_A_GPU = 1
# A worker opens the archive and compiles the finder; many that begin at once on a busy file server take a while.
SECONDS_TO_PREPARE = 300.0


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
    on_event: OnEvent | None = None,
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
        on_event: Told of each batch, step and failure (see :mod:`pipeline.watching.run_events`).

    Raises:
        RunError: The run could not be finished; the dataset stays as it is, marked ``running``, to be gone on with.
        RunStoppedError: It was asked to stop.
        FileExistsError: Another run is writing the dataset.
        WrongDarksWarning: (as a warning) the darks can't be right.
        StalePedestalWarning: (as a warning) the pedestal is off before some batch.
    """
    began = time.perf_counter() if began is None else began
    run_id = uuid.uuid4().hex[:8]
    telling = RunTelling(prepared, run_id, on_event)
    # Where nobody is told of steps, a first run would seem to hang.
    on_compiling = telling.step(on_step or logger.warning)
    on_step, on_notice = telling.step(on_step), telling.notice(on_notice)
    batch_bytes = min(prepared.options.batch_size, prepared.plan.n_frames) * prepared.archive.frame_nbytes
    watch = ClusterWatch(client, run_id, patience, should_stop, on_notice, batch_bytes)
    with telling, sole_writer(prepared.out, run_id) as dead:
        if dead is not None:
            on_notice(f"{prepared.out} was being written by {dead}, which has ended: its place is taken")
        begun = Event()
        try:
            # Tasks of a run that shares its cluster with others are told apart on the dashboard and in its metrics.
            as_one = span("photonflow", f"{Path(prepared.out).name} {run_id}")
            with writing(prepared.out), end_noted(prepared.out, run_id, begun.is_set), as_one:
                run = _Run(run_id, client, watch, on_step, on_progress, on_notice, on_compiling, began, telling)
                telling.result = run.execute(prepared, begun)
                return telling.result
        except (BatchError, OutputError, ClusterUnavailableError) as error:
            raise type(error)(f"{error}; {what_is_left(prepared, begun.is_set())}") from error


@dataclass(frozen=True)
class _Run:
    """What every part of a run needs.

    Args:
        id: Of this run, in the names of its tasks and in the dataset.
        client: The cluster.
        watch: Notices when it is lost, and when the run should stop.
        on_step, on_progress, on_notice: As :func:`execute` takes them.
        on_compiling: Told what workers compile before their first batch.
        began: ``time.perf_counter()`` when the user's wait began.
        telling: Told of each batch.
    """

    id: str
    client: Client
    watch: ClusterWatch
    on_step: Callable[[str], None]
    on_progress: Callable[[RunProgress], None] | None
    on_notice: Callable[[str], object]
    on_compiling: Callable[[str], object]
    began: float
    telling: OnEvent

    def execute(self, prepared: PreparedRun, begun: Event) -> RunResult:
        """Train, find and write; `begun` is set once there is a dataset to go on with."""
        require_photonflow(self.client, self.watch, self.on_notice)
        if prepared.options.backend == "auto":
            prepared = replace(prepared, backend=backend_of_workers(self.client, self.watch))
        needed_bytes, notice = require_memory(prepared, self.watch.workers)
        if notice is not None:
            self.on_notice(notice)
        prepared, trained = self._train(prepared)
        if prepared.options.resume and run_of_dataset(prepared.out) is not None:
            prepared = replace(prepared, layout=read_layout(prepared.out))
        setup = _setup(prepared, trained.pedestal, self.id)
        with (
            _plugin_on_workers(setup, self.client, self.on_step, self.on_compiling, self.watch) as exits,
            _word_of_tasks(self.client, self.id, self.watch) as word,
        ):
            beginning = self._begin(prepared, trained)
            if beginning.is_complete:
                return already_complete(prepared, self.watch.n_threads, time.perf_counter() - self.began)
            begun.set()
            ceilings = ceilings_of(prepared, self.watch.workers)
            submitted = time.perf_counter()
            work = self._work(prepared, beginning)
            deaths = DeathsByTask(exits.of, self.on_notice, len(self.watch.workers), needed_bytes)
            # To its very end: what is told at last is the account of it all, or why its dataset could not be finished.
            with told_to_scheduler(self.client, described(prepared, self.id, work), ceilings, self.watch) as reporter:
                record = self._find(prepared, beginning, work, ceilings, deaths, word, reporter)
                times = RunTimes(self.began, submitted, time.perf_counter(), time.time())
                result = finish_run(prepared, self.id, beginning, record, Against(ceilings, self.watch.workers, times))
                if reporter is not None:
                    reporter.on_account(result.summary.account)
        warn_of_pedestal(record.known(), prepared, int((trained.pedestal.noise > 0).sum()))
        return result

    def _train(self, prepared: PreparedRun) -> tuple[PreparedRun, TrainedPedestal]:
        """The pedestal, and the run without the pixels that it could not be trained for."""
        parameters = prepared.options.parameters
        self.on_step(f"training the pedestal on {prepared.pedestal}")
        training = Training(
            parameters.n_samples,
            masked_in(prepared),
            parameters.common_mode,
            parameters.gain_bits,
            prepared.options.dark_clip,
        )
        trained = train_pedestal(prepared.pedestal, training, self.client, self.id, self.watch)
        warn_of_wrong_darks(prepared, trained)
        for notice in notices_of_darks(trained, training):
            self.on_notice(notice)
        return without_untrained(prepared, trained), trained

    def _begin(self, prepared: PreparedRun, trained: TrainedPedestal) -> Beginning:
        """A dataset: a new one, or what an earlier run left of one."""
        options, pedestal = prepared.options, trained.pedestal
        made = made_from(prepared, pedestal)
        attributes = run_attributes(prepared, trained) | {"made_from": json.dumps(made)}
        attributes |= history_of(prepared, self.id)
        if prepared.backend == "cuda" and (gpus := gpus_of_workers(self.client, self.watch)):
            attributes["device"] = gpus
        if options.resume:
            compare = (
                FrameComparison(prepared, self.client, self.id, self.watch, self.on_step) if options.verify else None
            )
            beginning = begin_again(prepared, attributes, made, self.id, compare)
            if beginning is not None:
                if beginning.is_complete or not beginning.skipped:
                    return beginning
                self.on_step(f"trying {len(beginning.skipped)} skipped batches again")
                return begin_where_skipped(prepared, beginning, self.client, self.watch, self.id)
        return begin_anew(prepared, attributes, made, pedestal, self.id)

    def _work(self, prepared: PreparedRun, beginning: Beginning) -> Work:
        """What is left to be done."""
        options, layout, left = prepared.options, prepared.layout, beginning.left
        return Work(
            run_id=self.id,
            plan=prepared.plan,
            rows_per_chunk=layout.rows_per_chunk,
            to_find=left.to_find,
            kept=left.kept,
            expected=beginning.expected,
            on_bad_batch=options.on_bad_batch,
            chained=options.tracking == "chain",
            cluster_list=layout.cluster_list,
            window=WINDOW,
            ahead=AHEAD_ON_A_GPU if prepared.backend == "cuda" else None,
        )

    def _find(
        self,
        prepared: PreparedRun,
        beginning: Beginning,
        work: Work,
        ceilings: RunCeilings,
        deaths: DeathsByTask,
        word: Word,
        reporter: RunReporter | None,
    ) -> RunRecord:
        """Find and write the batches that are left."""
        self.on_step("finding clusters")
        journal, totals, n_threads = beginning.journal, beginning.totals, self.watch.n_threads
        logger.info("run %s: %d batches on %d workers into %s", self.id, len(work.to_find), n_threads, prepared.out)
        listeners = [] if self.on_progress is None else [with_tallest(self.on_progress, ceilings)]
        on_progress, on_event = with_reporter(listeners, self.telling, reporter)
        submission = Submission(
            self.client,
            work,
            self.watch,
            deaths,
            word,
            on_count=journal.append,
            on_products=totals.add,
            on_progress=on_progress,
            on_oldest=StatePruner(ChainStates(journal.folder)) if work.chained else None,
            on_event=on_event,
        )
        if reporter is not None:
            reporter.follow(submission.record)
        try:
            record = submission.run()
        finally:
            journal.close()
            with contextlib.suppress(OSError):  # without it a run that goes on finds a little more
                totals.save()
        if reporter is not None:
            reporter.tell()
        return record


def _setup(prepared: PreparedRun, pedestal: Pedestal, run_id: str) -> RunSetup:
    """What each worker is given."""
    options = prepared.options
    return RunSetup(
        run_id=run_id,
        archive=prepared.archive.address,
        dataset=prepared.out,
        layout=prepared.layout,
        parameters=options.parameters,
        backend=prepared.backend,
        pedestal=pedestal,
        pixel_mask=prepared.pixel_mask,
        block_bytes=BLOCK_BYTES,
        chains=chain_options(prepared),
        products=options.products,
        verify=options.verify,
        chain_folder=journal_place(prepared.out) if options.tracking == "chain" else None,
    )


@contextmanager
def _plugin_on_workers(
    setup: RunSetup,
    client: Client,
    on_step: Callable[[str], None],
    on_compiling: Callable[[str], object],
    watch: ClusterWatch,
) -> Iterator[WorkerExits]:
    on_step("preparing the workers")
    exits, compiling = WorkerExits(client, setup.run_id), CompilingNews(client, setup.run_id, on_compiling)
    # First: what the workers tell while they are prepared is not kept for who listens later.
    watch.answer(compiling.listen, "listen to its workers")
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
        watch.let_go(compiling.stop)


@contextmanager
def _word_of_tasks(client: Client, run_id: str, watch: ClusterWatch) -> Iterator[Word]:
    word = Word(client, run_id)
    word.listen()
    try:
        yield word
    finally:
        watch.let_go(word.stop)
