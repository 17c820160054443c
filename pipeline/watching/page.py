"""The page ``/photonflow`` on a scheduler's dashboard: its runs, the running ones in full.

It is brought to the dashboard when the first run comes to the scheduler, stands in the dashboard's bar from then on,
and costs nothing while nobody looks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import distributed
from bokeh.layouts import column, row
from bokeh.models import Column, InlineStyleSheet
from bokeh.models.widgets.markups import Div
from distributed import Scheduler
from jinja2 import Environment, FileSystemLoader
from tornado.ioloop import IOLoop

from pipeline.watching import page_html, page_style
from pipeline.watching.gpu_memory import GPU_METRIC
from pipeline.watching.page_charts import PedestalChart, RateChart
from pipeline.watching.page_html import WorkerOnScheduler
from pipeline.watching.run_board import RunBoard, ShownRun
from pipeline.watching.scheduler_plugin import PAGE

logger = logging.getLogger(__name__)

MILLISECONDS_BETWEEN = 2000
# Of more runs at once the others have a line each.
RUNS_IN_FULL = 4


def add_page(board: RunBoard) -> None:
    """Serve the page beside the pages of the board's scheduler, and link it from their bar."""
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables

    scheduler: Any = board.scheduler
    variables = template_variables(scheduler)
    if PAGE not in variables["pages"]:
        # The stock pages have the same list.
        variables["pages"].append(PAGE)
    stock = _stock_application(scheduler)
    prefix = stock.prefix
    application = BokehApplication({f"/{PAGE}": partial(_document, board)}, scheduler, prefix, variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def has_dashboard(scheduler: Scheduler) -> bool:
    """Whether a scheduler serves Dask's dashboard, so that a page of ours can stand beside it."""
    return _stock_application(scheduler) is not None


def _stock_application(scheduler: Any) -> Any:
    for application in scheduler.http_application.applications:
        if "/status" in getattr(application, "app_paths", ()):
            return application
    return None


def _document(board: RunBoard, scheduler: Scheduler, extra: dict[str, Any], doc: Any) -> None:
    templates = Path(distributed.__file__).parent / "http" / "templates"
    doc.title = "photonflow"
    doc.template = Environment(loader=FileSystemLoader(templates), autoescape=False).get_template("simple.html")
    doc.template_variables.update(extra)
    page = RunsPage(board)
    page.update()
    doc.add_root(page.root)
    doc.add_periodic_callback(page.update, MILLISECONDS_BETWEEN)


class RunsPage:
    """What one browser is shown."""

    def __init__(self, board: RunBoard) -> None:
        self._board = board
        self._views: dict[str, RunView] = {}
        self._rest = _html(page_style.CARD)
        self.root: Column = column(sizing_mode="stretch_width", styles={"padding": "16px", "gap": "16px"})

    def update(self) -> None:
        """Show what is known now."""
        now = time.time()
        runs = list(self._board.runs.values())
        full = self._in_full(runs)
        if [run.description.run_id for run in full] != list(self._views) or not self.root.children:
            known = self._views
            self._views = {
                run.description.run_id: known.get(run.description.run_id) or RunView(run, self._board) for run in full
            }
            self.root.children = [*(view.root for view in self._views.values()), self._rest]
        for view in self._views.values():
            view.update(now)
        others = [run for run in reversed(runs) if run.description.run_id not in self._views]
        _say(self._rest, page_html.earlier(others, now) if others else "" if full else page_html.nothing())
        self._rest.visible = bool(others) or not full

    def _in_full(self, runs: list[ShownRun]) -> list[ShownRun]:
        going = [run for run in reversed(runs) if run.ended is None]
        return going[:RUNS_IN_FULL] or runs[-1:]


class RunView:
    """A run in full."""

    def __init__(self, run: ShownRun, board: RunBoard) -> None:
        self._run, self._board = run, board
        self._head, self._tiles = _html(), _html()
        self._stages, self._workers = _html(page_style.HALF), _html(page_style.HALF)
        self._charts = (
            RateChart("Frames a second", page_style.FRAMES, of_clusters=False),
            RateChart("Clusters a second", page_style.CLUSTERS, of_clusters=True),
            PedestalChart(),
        )
        self._drawn: Any = None
        self.root: Column = column(
            self._head,
            self._tiles,
            row(*(chart.figure for chart in self._charts), sizing_mode="stretch_width", styles=page_style.CHARTS),
            row(self._stages, self._workers, sizing_mode="stretch_width", styles=page_style.HALVES),
            sizing_mode="stretch_width",
            styles=page_style.CARD,
        )

    def update(self, now: float) -> None:
        """Show what is known now."""
        run = self._run
        _say(self._head, page_html.head(run, now))
        _say(self._tiles, page_html.tiles(run, now))
        _say(self._workers, page_html.workers(run, list(workers_of(self._board.scheduler)), now))
        drawn = (run.state, run.ended)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        _say(self._stages, page_html.stages(run))
        for chart in self._charts:
            chart.update(run, now)


def workers_of(scheduler: Any) -> Iterator[WorkerOnScheduler]:
    """The workers that a scheduler has, with what their last heartbeats said of their memory."""
    for worker in scheduler.workers.values():
        of_gpu = (metric for name, metric in worker.metrics.items() if name.startswith(GPU_METRIC))
        gpu: dict[str, Any] = next(of_gpu, {})
        yield WorkerOnScheduler(
            name=str(worker.name),
            host=str(worker.host),
            threads=int(worker.nthreads),
            memory=int(worker.metrics.get("memory", 0)),
            memory_limit=int(worker.memory_limit or 0),
            device=str(gpu.get("device", "")),
            device_memory=int(gpu.get("used", 0)),
            device_limit=int(gpu.get("total", 0)),
        )


def _html(style: Mapping[str, str] | None = None) -> Div:
    styles: dict[str, str | None] = dict(style or {})
    return Div(margin=0, sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=page_style.CSS)], styles=styles)


def _say(div: Div, html: str) -> None:
    if div.text != html:
        div.text = html
