"""Pictures of a run's time: its stages beside their ceilings, and where all of it went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workflows.reporting.bars import Bar, bar_chart
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import PARTS, STAGES, Paper
from workflows.run_figures import is_of_a_gpu, microseconds, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# So many times the longest bar is the end of what is drawn.
_FARTHEST = 3.0


def stage_bars(run: RunRecord, paper: Paper) -> Figure:
    """µs of a worker for each stage of a frame, the tallest marked, and what each would take at its ceiling."""
    bars = []
    for name, stage in run.require_stages().items():
        micros, share = stage["microseconds_a_frame"], stage["share_of_ceiling"]
        binds = name == run.account["binds"]
        said = f"{microseconds(micros)} µs{'' if share is None else f', {percent(share)} of its ceiling'}"
        label = f"{'· ' * is_of_a_gpu(stage)}{name}"
        if paper.is_narrow:
            label += " ◀" * binds
        else:
            said += "  ◀ binds" * binds
        line_at = None if share is None else micros * share
        bars.append(Bar(label, micros, said, STAGES[name], is_marked=binds, line_at=line_at))
    idle = run.account["idle_seconds"] / run.account["frames"] * 1e6
    bars.append(Bar("idle", idle, f"{microseconds(idle)} µs", STAGES["idle"]))
    lines = " The black line: at the measured ceiling." * any(bar.line_at is not None for bar in bars)
    of_gpus = " A dot: of one GPU, within find, which waits for it." * any(map(is_of_a_gpu, run.stages.values()))
    # A mark so far beyond all bars that these would be slivers is told by its figure alone.
    farthest = _FARTHEST * max(bar.value for bar in bars)
    near = [replace(bar, line_at=None) if (bar.line_at or 0.0) > farthest else bar for bar in bars]
    beyond = " A ceiling beyond the picture has none." * (near != bars)
    figure, axes = bar_chart(paper, near, f"time of one worker a frame [µs].{lines}{beyond}{of_gpus}")
    paper.entitle(axes, "What a frame costs, stage by stage")
    return figure


def time_parts(run: RunRecord, paper: Paper) -> Figure:
    """Where the workers' time went, from the first moment to the last."""
    run.require_stages()
    parts = {name: value for name, value in run.account["worker_seconds"].items() if value > 0}
    if not parts:
        raise AbsentError("The dataset does not say where the workers' time went: process the archive again.")
    total = sum(parts.values())
    bars = [
        Bar(name, value / total, f"{value / total:.0%}  ({value:.2f} s)", PARTS[name]) for name, value in parts.items()
    ]
    figure, axes = bar_chart(paper, bars, "share of all worker seconds")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    paper.entitle(axes, "Where the time went")
    return figure
