"""A picture of a run's batches on its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cluster_store import FrameStatus
from workflows.pictures import spelled
from workflows.reporting.batch_table import worker_names
from workflows.reporting.run_record import RunRecord
from workflows.reporting.style import ACCENT, INK, PARTS, STAGES, Paper

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of more workers than these the timeline shows the first ones: rows would be too thin to see.
MOST_ROWS = 24
_LONGEST_NAME = 28
# A batch's moments and its stages are told by two clocks, in s.
CLOCKS = 1e-3


def timeline(run: RunRecord, paper: Paper) -> Figure:
    """When each worker had which batch, in the shares of its stages; batches that failed are red.

    Batches that a worker has at the same time, one on each of its threads or of its GPU's streams, lie in lanes. A
    worker that had none has a row too, idle from end to end.
    """
    batches = run.require_batches()
    names = worker_names(batches)
    shown = names[:MOST_ROWS]
    table = batches.isel(batch=np.flatnonzero(batches["worker"].to_numpy() < len(shown)))
    began, written = (_seconds(table[name].to_numpy()) for name in ("began", "written"))
    zero, end = span(run.account, batches)
    stages = _stage_seconds(table)
    began -= zero
    ended = began + sum(map(np.nan_to_num, stages.values()))
    last = float(np.nanmax([*ended, *(written - zero)[np.isfinite(written)]]))
    whole = max(last, end)
    figure, axes = paper.figure(1.3 + (0.48 if paper.is_narrow else 0.4) * (len(shown) + 1))
    # Beneath a row's name, where that is written above it.
    top, depth = (-0.12, 0.5) if paper.is_narrow else (-0.35, 0.7)
    done = np.isfinite(written)
    # Which worker wrote what is not kept.
    between = "idle or writing" if done.any() else "idle"
    axes.barh(np.arange(len(shown)) + top, last, depth, color=STAGES["idle"], alpha=0.5, align="edge", label=between)
    if end > last:
        axes.barh(
            np.arange(len(shown) + 1) + top, end - last, depth, last, color=PARTS["stragglers"], alpha=0.7,
            align="edge", label="finishing",
        )  # fmt: skip
    workers = table["worker"].to_numpy()
    lane = _lanes(workers, began, ended)
    height = depth / (lane.max(initial=0) + 1)
    rows = workers + top + height * (lane + 0.5)
    _draw_batches(axes, table, stages, _Places(began, rows, height))
    moments = (written - zero)[done]
    row = np.full(len(moments), len(shown) + top + depth / 2)
    took = np.nan_to_num(table["write_seconds"].to_numpy()[done]) if "write_seconds" in table else np.zeros(len(row))
    axes.barh(row, took, depth * 0.6, np.maximum(moments - took, 0), color=STAGES["write"], alpha=0.6, label="write")
    axes.plot(moments, row, "|", color=STAGES["write"], markersize=13, markeredgewidth=2, label="rows written")
    axes.set_ylim(len(shown) + 0.55, -0.6)
    axes.set_xlim(0, 1.02 * max(whole, 1e-9))
    labels = [*(f"worker {spelled(_cut(name))}" for name in shown), "written"]
    if paper.is_narrow:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        for place, label in enumerate(labels):
            axes.text(0, place + top - 0.04, label, transform=axes.get_yaxis_transform(), fontsize=9, va="bottom")
    else:
        axes.set_yticks(range(len(labels)), labels)
    since = "was handed out" if end else "began"
    axes.set_xlabel(paper.wrapped(f"time since the first batch {since} [s]"))
    # Bars in the order of the stages, then marks.
    handles, named = axes.get_legend_handles_labels()
    order = sorted(range(len(named)), key=lambda k: named[k] in ("failed", "rows written"))
    figure.legend(
        [handles[k] for k in order],
        [named[k] for k in order],
        loc="outside lower center",
        ncols=2 if paper.is_narrow else 4,
    )
    left_out = f" (the first {MOST_ROWS} of {len(names)} workers)" if len(names) > MOST_ROWS else ""
    of_last = (
        ", the last run's" if run.batches is not None and batches.sizes["batch"] < run.batches.sizes["batch"] else ""
    )
    paper.entitle(axes, f"Batches on the workers{of_last}{left_out}")
    return figure


def span(account: Mapping[str, Any], batches: xr.Dataset) -> tuple[float, float]:
    """From when time is counted, in s since 1970, and how long the run took from then on, in s; 0 where not known."""
    first, handed_out = float(np.nanmin(_seconds(batches["began"].to_numpy()))), account.get("handed_out")
    # Of workers whose clocks differ from the client's, and of datasets made before it was kept, it can't be told.
    if handed_out is None or not -CLOCKS <= first - handed_out <= account["seconds"]:
        return first, 0.0
    return min(first, handed_out), float(account["seconds"])


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


@dataclass(frozen=True)
class _Places:
    """Where the batches lie.

    Args:
        began: s since the first one began.
        rows: Their middle.
        height: Of a row or lane.
    """

    began: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float64]
    height: float


def _draw_batches(axes: Axes, table: xr.Dataset, stages: dict[str, npt.NDArray[np.float64]], places: _Places) -> None:
    failed = table["status"].to_numpy() != int(FrameStatus.OK)
    at = places.began
    for name, values in stages.items():
        axes.barh(
            places.rows, np.where(failed, 0, values), left=at, height=places.height, color=STAGES[name], label=name
        )
        at = at + np.nan_to_num(values)
    if failed.any():
        axes.plot(
            places.began[failed], places.rows[failed], "X", color=ACCENT, markeredgecolor=INK, markersize=9,
            clip_on=False, zorder=4, label="failed",
        )  # fmt: skip


def _stage_seconds(table: xr.Dataset) -> dict[str, npt.NDArray[np.float64]]:
    """Of each batch, the seconds in each stage on its worker, in their order."""
    seconds = {
        name: table[f"{name}_seconds"].to_numpy() for name in ("read", "decode", "find") if f"{name}_seconds" in table
    }
    if np.isnan(seconds.get("decode", np.array([np.nan]))).all():
        return {"read + decode": seconds["read"], "find": seconds["find"]}
    return {"read": seconds["read"] - seconds["decode"], "decode": seconds["decode"], "find": seconds["find"]}


def _lanes(workers: npt.NDArray[Any], began: npt.NDArray[Any], ended: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each batch a lane of its worker, in which none that came before it is still under way."""
    lanes, busy_until = np.zeros(len(workers), np.int64), dict[Any, list[float]]()
    for k in np.argsort(began, kind="stable").tolist():
        ends = busy_until.setdefault(workers[k].item(), [])
        free = next((lane for lane, end in enumerate(ends) if end <= began[k] + CLOCKS), len(ends))
        ends[free : free + 1] = [float(ended[k])]
        lanes[k] = free
    return lanes


def _seconds(times: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Seconds, of times that xarray may have decoded."""
    if times.dtype.kind != "M":
        return times.astype(np.float64)
    values = times.astype("datetime64[ns]").astype(np.float64) / 1e9
    return np.where(np.isnat(times), np.nan, values)
