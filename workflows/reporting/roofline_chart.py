"""The roofline of a run: operations a byte and operations a second, under every ceiling that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workflows import run_figures
from workflows.pictures import spelled
from workflows.reporting.label_places import place_labels
from workflows.reporting.roofline_points import THE_RUN, Line, Point, lines, points
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import FAINT, INK, PAPER, Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOW_TO_READ = (
    "A dot: a stage, by the finder's operations for each byte that it moves, and those that a worker gets through "
    "while in it. The ring straight above it, where the line of its colour ends: its ceiling, and at the dot how much "
    "of it was reached. Level lines bound find alone: other stages compute nothing, and may lie above. The star: the "
    "run, its ring the bound."
)

# Apart without colours: dots, dashes and gaps, in widths of the line.
_DASHES = ((6, 2), (1, 1.5), (6, 2, 1, 2), (3, 1.5), (8, 2, 1, 2, 1, 2), (2, 3), (10, 3), (1, 3), (4, 1, 4, 4))


def roofline_chart(run: RunRecord, paper: Paper) -> Figure:
    """Log-log: each stage and the run, under lines of slope 1 (bytes a second) and level ones (operations a second).

    A dot lies below its ring, the end of its own line, by the share of its ceiling that the table of stages has.
    """
    if not any(ceiling["name"] == "float32" for ceiling in run.ceilings):
        raise AbsentError(
            f"The machine's ceilings were not measured before the run: {run_figures.how_to_know(run.account)}."
        )
    shown = points(run)
    others = lines(run, shown)
    entries, columns = len(shown) + len(others), 1 if paper.is_narrow else 2
    figure, axes = paper.figure(3.6 + 0.19 * -(-entries // columns))
    axes.set(xscale="log", yscale="log", **_limits(shown, others))
    _draw_lines(axes, shown, others)
    for point in shown:
        _draw(axes, point)
    axes.set_xlabel(paper.wrapped("operations of the finder for each byte that the stage moves [op/B]"))
    per = f"a worker{' or GPU' * ('kernel' in run.stages)}"
    axes.set_ylabel(f"operations a second, {per} [op/s]")
    paper.entitle(axes, "Roofline: every measured ceiling, each stage, and the run")
    handles, names = axes.get_legend_handles_labels()
    # The stages first, which are drawn last, above all lines.
    first = len(others)
    handles, names = handles[first:] + handles[:first], names[first:] + names[:first]
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=8)
    labels = [(p.intensity, p.rate, f"{p.name} {run_figures.percent(p.share, '')}".strip()) for p in shown]
    rings = [(point.intensity, point.ceiling_rate) for point in shown if point.ceiling_rate]
    place_labels(
        axes, labels, rings, fontsize=8.5, bbox={"facecolor": PAPER, "alpha": 0.75, "pad": 0.5, "linewidth": 0}
    )
    return figure


def _limits(shown: Sequence[Point], others: Sequence[Line]) -> dict[str, tuple[float, float]]:
    """Room for all dots, rings and ends of lines, and for what is said at the dots."""
    where = [point.intensity for point in shown]
    where += [_roof(shown, others) / line.rate for line in others if not line.is_level]
    rates = [rate for point in shown for rate in (point.rate, point.ceiling_rate) if rate]
    rates += [line.rate for line in others if line.is_level]
    right = max(point.intensity for point in shown)
    return {"xlim": (min([right / 5, *where]) / 2, 5 * right), "ylim": (min(rates) / 3, 3 * max(rates))}


def _roof(shown: Sequence[Point], others: Sequence[Line]) -> float:
    """The highest of the level lines."""
    level = [line.rate for line in others if line.is_level]
    return max([*level, *(point.ceiling_rate for point in shown if point.is_level and point.ceiling_rate)])


def _draw_lines(axes: Axes, shown: Sequence[Point], others: Sequence[Line]) -> None:
    """The line of each stage up to its ring, and those of other ceilings, each with dashes of its own."""
    left, right = axes.get_xlim()
    for point in shown:
        if (rate := point.ceiling_rate) is not None and point.name != THE_RUN:
            ends = ([left, right], [rate, rate]) if point.is_level else _slope(left, point.intensity, rate)
            axes.plot(*ends, color=point.colour, linewidth=1.8, zorder=1)
    roof = _roof(shown, others)
    for place, line in enumerate(others):
        ends = ([left, right], [line.rate, line.rate]) if line.is_level else _slope(left, roof / line.rate, roof)
        axes.plot(
            *ends, color=INK if line.is_level else FAINT, linewidth=1.3 if line.is_level else 1.0, zorder=1,
            linestyle=(0, _DASHES[place % len(_DASHES)]), label=spelled(line.said),
        )  # fmt: skip


def _slope(left: float, intensity: float, rate: float) -> tuple[list[float], list[float]]:
    """A line of slope 1 from the left to where the rate is reached."""
    return [min(left, intensity), intensity], [rate * min(left, intensity) / intensity, rate]


def _draw(axes: Axes, point: Point) -> None:
    """Its dot, or star, and its ring."""
    marker, size = ("*", 15) if point.name == THE_RUN else ("o", 9)
    axes.plot(
        point.intensity, point.rate, marker=marker, markersize=size, color=point.colour, markeredgecolor=INK,
        linestyle="none", label=spelled(f"{point.name}: {point.ceiling}"),
    )  # fmt: skip
    if point.ceiling_rate is not None:
        axes.plot(
            point.intensity, point.ceiling_rate, marker="o", markersize=9, markerfacecolor="none",
            markeredgecolor=point.colour, markeredgewidth=1.8, linestyle="none",
        )  # fmt: skip
