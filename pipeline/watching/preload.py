"""The page of runs from a scheduler's start on: ``dask scheduler --preload pipeline.watching.preload``.

Without it the first run brings the page, and before that there is none.
"""

from __future__ import annotations

from distributed import Scheduler

from pipeline.watching.scheduler_plugin import bring_board


def dask_setup(scheduler: Scheduler) -> None:
    """Bring the board and its page, as Dask asks a scheduler's preloads to do when it starts."""
    bring_board(scheduler)
