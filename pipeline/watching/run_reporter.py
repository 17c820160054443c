"""A client's side of being watched: it tells the scheduler how far its run is, once a second at most."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future as ConcurrentFuture
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeVar

from distributed import Client

from pipeline.batches.run_record import RunProgress, RunRecord, Work
from pipeline.ceilings.of_stages import RunCeilings
from pipeline.errors import RunStoppedError
from pipeline.output.redaction import redacted
from pipeline.preparation import PreparedRun
from pipeline.watching.run_events import OnEvent, RunEvent
from pipeline.watching.run_state import RunDescription, RunState, StageState, WorkerTotals
from pipeline.watching.scheduler_plugin import PAGE, TELL, RunOnScheduler, bring_board, plugin_name
from pipeline.workers.cluster_watch import ClusterWatch
from roofline.accounting import Account, tallest

logger = logging.getLogger(__name__)
Told = TypeVar("Told")

SECONDS_BETWEEN = 1.0
"""A state is sent no more often."""
SECONDS_TO_END = 2.0
"""The last one may take so long, of a scheduler that hangs."""


class RunReporter:
    """Adds up what the page shows beyond a run's record, and sends it.

    Args:
        client: The cluster.
        run_id: The run.
        ceilings: What its stages could do.
    """

    def __init__(self, client: Client, run_id: str, ceilings: RunCeilings) -> None:
        self._client, self._run_id, self._ceilings = client, run_id, ceilings
        self._record: RunRecord | None = None
        self._account: Account | None = None
        self._offset = self._movement = math.nan
        self._workers: dict[str, WorkerTotals] = {}
        self._failures = 0
        self._sent = 0.0
        self._sending: ConcurrentFuture[Any] | None = None

    def follow(self, record: RunRecord) -> None:
        """Tell what this holds at the time; it grows beyond what :meth:`on_progress` is told of: writes come later."""
        self._record = record

    def on_account(self, account: Account) -> None:
        """The run is done: what is told at last are the figures of its table, which the dataset keeps."""
        self._account = account

    def on_event(self, event: RunEvent) -> None:
        """Something happened."""
        if event.event == "batch_failed":
            self._failures += 1
        if event.worker is not None and event.event in ("batch_found", "batch_written"):
            before = self._workers.get(event.worker, WorkerTotals())
            self._workers[event.worker] = WorkerTotals(
                before.frames + (event.frames or 0),
                before.clusters + (event.clusters or 0),
                before.batches + (event.event == "batch_found"),
                before.busy_seconds + (event.seconds or 0.0),
            )

    def on_progress(self, progress: RunProgress) -> None:
        """The run has come further; it is told if the last time is long enough ago and was heard."""
        self._offset, self._movement = progress.offset, progress.movement
        if time.monotonic() - self._sent >= SECONDS_BETWEEN and (self._sending is None or self._sending.done()):
            self.tell()

    def tell(self) -> None:
        """Tell how far the run is, and don't wait until that was heard."""
        self._sent = time.monotonic()
        self._sending = self._tell(self.state())

    def state(self) -> RunState:
        """How far the run is."""
        record = self._record
        if record is None:
            return RunState(failures=self._failures)
        if (account := self._account) is not None:
            bars, binds, idle_seconds = account.bars, account.tallest, account.idle_seconds
        else:
            bars = tuple(self._ceilings.bars(record.totals.uses()))
            binds = tallest(bars, self._ceilings.workers, self._ceilings.gpus)
            idle_seconds = record.totals.idle_seconds
        return RunState(
            frames=record.frames_found,
            clusters=record.n_clusters,
            batches=record.batches_found,
            skipped=record.batches_skipped,
            failures=self._failures,
            offset=self._offset,
            movement=self._movement,
            idle_seconds=idle_seconds,
            stages=tuple(StageState.of(bar) for bar in bars),
            binds="" if binds is None else binds.name,
            workers=dict(self._workers),
            seconds=0.0 if account is None else account.seconds,
        )

    def end(self, outcome: str, message: str = "") -> None:
        """Tell how the run ended, and wait until that was heard."""
        self._tell(replace(self.state(), outcome=outcome, message=message)).result(SECONDS_TO_END)

    def _tell(self, state: RunState) -> ConcurrentFuture[Any]:
        loop: Any = self._client.loop
        scheduler: Any = self._client.scheduler
        telling = getattr(scheduler, TELL)(run=self._run_id, state=state.as_message())
        return asyncio.run_coroutine_threadsafe(telling, loop.asyncio_loop)


@contextmanager
def told_to_scheduler(
    client: Client, description: RunDescription, ceilings: RunCeilings, watch: ClusterWatch
) -> Iterator[RunReporter | None]:
    """Let the scheduler know of a run and how it ends; None where it can't show runs.

    That is no reason for a run to fail.

    Args:
        client: The cluster.
        description: The run.
        ceilings: What its stages could do.
        watch: Waits for the scheduler.
    """
    description = replace(description, client=client.id)
    if not _registered(client, description, watch):
        yield None
        return
    reporter = RunReporter(client, description.run_id, ceilings)
    outcome, message = "failed", ""
    try:
        yield reporter
        outcome = "complete"
    except RunStoppedError as stop:
        outcome, message = "stopped", redacted(str(stop))
        raise
    except BaseException as error:
        message = redacted(str(error))
        raise
    finally:

        def end() -> None:
            reporter.end(outcome, message)
            client.unregister_scheduler_plugin(plugin_name(description.run_id))

        watch.let_go(end, SECONDS_TO_END)


def with_reporter(
    listeners: list[Callable[[RunProgress], None]], on_event: OnEvent, reporter: RunReporter | None
) -> tuple[Callable[[RunProgress], None], OnEvent]:
    """What tells all who listen to a run's progress and events, the reporter among them if there is one."""
    if reporter is None:
        return _each(listeners), on_event
    return _each([reporter.on_progress, *listeners]), _each([on_event, reporter.on_event])


def described(prepared: PreparedRun, run_id: str, work: Work) -> RunDescription:
    """A run that begins now, in the words of the page."""
    kept = work.kept.values()
    return RunDescription(
        run_id=run_id,
        name=PurePath(prepared.out).name.removesuffix(".zarr").removesuffix(".clusters"),
        archive=redacted(prepared.archive.address.path),
        out=redacted(prepared.out),
        backend=prepared.backend,
        began=time.time(),
        frames=prepared.plan.n_frames,
        batches=len(prepared.plan),
        frames_kept=sum(count.batch.n_frames for count in kept),
        clusters_kept=sum(count.n_clusters for count in kept),
        batches_kept=len(kept),
    )


def _each(listeners: Sequence[Callable[[Told], object]]) -> Callable[[Told], None]:
    def tell(told: Told) -> None:
        for listener in listeners:
            listener(told)

    return tell


def link_of_page(client: Client, watch: ClusterWatch) -> str | None:
    """Where the page of the runs on a scheduler is, which is brought there; None where there can be none.

    Raises:
        RunStoppedError: The run was asked to stop.
    """
    if not _brought(client, watch, lambda: bool(client.run_on_scheduler(bring_board))):
        return None
    link: str = client.dashboard_link
    return f"{link.removesuffix('status').rstrip('/')}/{PAGE}"


def _registered(client: Client, description: RunDescription, watch: ClusterWatch) -> bool:
    def register() -> bool:
        client.register_plugin(RunOnScheduler(description))
        return True

    return _brought(client, watch, register)


def _brought(client: Client, watch: ClusterWatch, bring: Callable[[], bool]) -> bool:
    def asked() -> bool:
        # A function of the standard library: one of ours could not even be looked up where photonflow is missing.
        return client.run_on_scheduler(importlib.util.find_spec, "cluster_store") is not None and bring()

    try:
        return watch.answer(asked, "begin to show runs")
    except RunStoppedError:
        raise
    except Exception as error:
        logger.info("%s can't show runs: %s: %s", watch.name, type(error).__name__, error)
        return False
