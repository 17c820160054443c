"""A run's ear on the scheduler: it puts the run on the board, and notices tasks that are begun again."""

from __future__ import annotations

import logging
from importlib import metadata
from typing import Any

from distributed import Scheduler, SchedulerPlugin

from pipeline.errors import ClusterUnavailableError
from pipeline.watching.run_board import EXTENSION, RunBoard
from pipeline.watching.run_state import RunDescription
from pipeline.watching.scheduler_metrics import collect_from

logger = logging.getLogger(__name__)

PAGE = "photonflow"
"""The name of the page on the scheduler's dashboard."""
TELL = "photonflow_tell"
"""The name of what a client calls on the scheduler to tell how far its run is."""


class RunOnScheduler(SchedulerPlugin):
    """Registered for as long as a run goes on; the board that it begins stays with the scheduler.

    Args:
        description: The run.
    """

    def __init__(self, description: RunDescription) -> None:
        self.description = description
        self.name = plugin_name(description.run_id)
        self.version = metadata.version("photonflow")
        self._begun: set[str] = set()

    async def start(self, scheduler: Scheduler) -> None:
        """Put the run on the board; the first one brings the board, its page and its metrics."""
        self._scheduler = scheduler
        self._board = board_of(scheduler)
        self._run = self._board.begin(self.description)

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        """Note which batches are at work, and which tasks are begun again after a failure or a worker's end."""
        step, run_id, _ = (*str(key).rsplit("-", 2), "", "")[:3]
        if run_id != self.description.run_id:
            return
        if finish == "processing":
            if key in self._begun:
                self._board.retry(self._run, step)
            self._begun.add(key)
            self._shorten_span(key)
            if step == "find":
                self._run.at_work.add(key)
            return
        self._run.at_work.discard(key)
        if finish == "forgotten":
            self._begun.discard(key)

    def _shorten_span(self, key: Any) -> None:
        # Dask notes on a run's span, for ever, that each task was submitted as a future: 700 bytes a batch.
        span_id = self._scheduler.tasks[key].group.span_id
        if span_id is not None and (noted := self._scheduler.extensions["spans"].spans[span_id].metadata):
            del noted["collections"][1:]

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """A client has gone."""
        self._board.lose_client(client)

    def __getstate__(self) -> dict[str, Any]:
        return {"description": self.description, "name": self.name, "version": self.version, "_begun": set()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ours = metadata.version("photonflow")
        if ours != state["version"]:
            raise ClusterUnavailableError(f"the scheduler has photonflow {ours} and the run is of {state['version']}")
        self.__dict__.update(state)


def plugin_name(run_id: str) -> str:
    """The name under which a run's plugin is registered."""
    return f"photonflow-watch-{run_id}"


def bring_board(dask_scheduler: Scheduler) -> bool:
    """Run on a scheduler, brings the board there before the first run; says whether it has a page."""
    return board_of(dask_scheduler).has_page


def board_of(scheduler: Scheduler) -> RunBoard:
    """The board of a scheduler, which is brought there if it has none."""
    board = scheduler.extensions.get(EXTENSION)
    if isinstance(board, RunBoard):
        return board
    board = RunBoard(scheduler)
    scheduler.extensions[EXTENSION] = board
    scheduler.handlers[TELL] = board.take
    collect_from(board)
    _show(board)
    return board


def _show(board: RunBoard) -> None:
    """Bring the page to the scheduler's dashboard, if it has one."""
    if not any(hasattr(application, "app_paths") for application in board.scheduler.http_application.applications):
        return
    # Late: Bokeh takes a while to load, and is there already where there is a dashboard.
    from pipeline.watching.page import add_page, has_dashboard

    if has_dashboard(board.scheduler):
        add_page(board)
        board.has_page = True
