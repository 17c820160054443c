"""The table of a run's batches, as far as it can be drawn: whole, and of one run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.output.run_history import runs_of

if TYPE_CHECKING:
    import xarray as xr

_FINITE = ("began", "read_seconds", "find_seconds")
_COLUMNS = (*_FINITE, "written", "worker", "status")
# Runs are told in whole seconds.
_ROUNDED = 1.0


def is_whole(batches: xr.Dataset) -> bool:
    """Whether every batch has a worker, and began and took times that a clock can tell."""
    names = batches.attrs.get("worker_names", [])
    return (
        isinstance(names, list)
        and all(name in batches and batches[name].dims == ("batch",) for name in _COLUMNS)
        and all(batches[name].dtype.kind in "iu" for name in ("worker", "status"))
        and all(bool(np.isfinite(batches[name]).all()) for name in _FINITE)
    )


def worker_names(batches: xr.Dataset) -> list[str]:
    """The workers, by their number in the table; those without a batch too, where they are known."""
    names = [str(name) for name in batches.attrs.get("worker_names", [])]
    known = int(batches["worker"].max()) + 1 if batches.sizes["batch"] else 0
    return [*names, *map(str, range(len(names), known))]


def of_last_run(batches: xr.Dataset, attrs: Mapping[str, Any]) -> xr.Dataset:
    """The batches of the run that made the dataset complete, and its workers, where others had gone before it.

    Between two runs there may be days, beside which no batch is to be seen.
    """
    runs = runs_of(attrs)
    try:
        last_began = datetime.fromisoformat(runs[-1]["began"]).timestamp()
    except (IndexError, KeyError, TypeError, ValueError):
        return batches
    is_last = batches["began"].to_numpy() >= last_began - _ROUNDED
    if len(runs) == 1 or is_last.all() or not is_last.any():
        return batches
    workers = batches["worker"].to_numpy()
    gone = set(workers[~is_last].tolist()) - set(workers[is_last].tolist())
    names = worker_names(batches)
    stay = [k for k in range(len(names)) if k not in gone]
    last = batches.isel(batch=np.flatnonzero(is_last))
    last["worker"] = ("batch", np.searchsorted(stay, workers[is_last]))
    return last.assign_attrs(worker_names=[names[k] for k in stay])
