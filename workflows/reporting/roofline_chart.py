"""The roofline of a run: operations a byte and operations a second, under every ceiling that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.ceilings.gpu import GPU_CEILINGS
from roofline.stencil import finder_operations, finder_traffic
from workflows import run_figures
from workflows.pictures import spelled
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import ACCENT, FAINT, INK, STAGES, Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lines that are closer to each other than so many times have one name together.
_ROOM = 1.3
# Of names above the roof: how they lean, their size, and the inches that they take of the picture's height.
_LEAN, _POINTS, _NAMES_HEIGHT = 50, 7.5, 1.6


def roofline_chart(run: RunRecord, paper: Paper) -> Figure:
    """Log-log: each stage and the run, under lines of slope 1 (bytes a second) and level ones (operations a second).

    On narrow paper only the ceilings that stages are compared with have names, in the legend.
    """
    stages, workers = run.require_stages(), run.account["workers"]
    ceilings = {ceiling["name"]: ceiling for ceiling in run.ceilings}
    if "float32" not in ceilings:
        raise AbsentError(
            f"The machine's ceilings were not measured before the run: {run_figures.how_to_know(run.account)}."
        )
    points = _points(run, stages)
    roof_names = ["float32", "int32", *(["GPU float32"] if "kernel" in stages else [])]
    roofs = {name: _share(ceilings[name], workers) for name in roof_names if name in ceilings}
    # Of archives and datasets other than this run's there may be ceilings too.
    wanted = {stage["ceiling"] for stage in stages.values()}
    slopes = [c for c in ceilings.values() if c["unit"] == "B/s" and (c["name"] in wanted or _is_of_any_run(c["name"]))]
    lines = [_Line(c["name"], _share(c, workers), _colour(c["name"], stages)) for c in slopes]
    roof = max(roofs.values())
    where, rates = zip(*points.values(), strict=True)
    # To the right of the last line's end there has to be room for its name.
    limits = min(where) / 4, max([4 * max(where), *(6 * roof / line.rate for line in lines if not paper.is_narrow)])
    figure, axes = paper.figure(4.9 if paper.is_narrow else 5.5)
    bottom, top = min(rates) / 4, 8 * max([*rates, roof])
    if not paper.is_narrow:
        top = roof * (roof / bottom) ** (_NAMES_HEIGHT / (4.1 - _NAMES_HEIGHT))
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=(bottom, top))
    _draw_slopes(axes, lines, limits, roof)
    if not paper.is_narrow:
        _name_slopes(axes, lines, roof)
    _draw_roofs(axes, roofs, limits, apart=not paper.is_narrow)
    for name, (intensity, rate) in points.items():
        if name == "the run":
            axes.plot(intensity, rate, "*", color=ACCENT, markersize=15, markeredgecolor=INK, label=name)
            continue
        line = next((line for line in lines if line.name == stages[name]["ceiling"]), None)
        known = line.said if line else stages[name]["ceiling"] if stages[name]["ceiling"] in roofs else "not measured"
        ceiling = f", its ceiling {known}" if paper.is_narrow else ""
        axes.plot(intensity, rate, "o", color=STAGES[name], markersize=9, markeredgecolor=INK, label=f"{name}{ceiling}")
    axes.set_xlabel(paper.wrapped("operations of the finder for each byte that the stage moves [op/B]"))
    axes.set_ylabel(f"operations a second, a worker{' or GPU' * ('kernel' in stages)} [op/s]")
    figure.legend(loc="outside lower center", ncols=1 if paper.is_narrow else 8)
    paper.entitle(axes, "Roofline: every measured ceiling, each stage, and the run")
    return figure


@dataclass(frozen=True)
class _Line:
    """A ceiling in bytes a second.

    Args:
        name: It.
        rate: What a worker gets of it, B/s.
        colour: Of the stage that is compared with it; None without one.
    """

    name: str
    rate: float
    colour: str | None

    @property
    def said(self) -> str:
        return f"{self.rate / 1e9:.2g} GB/s"


def _points(run: RunRecord, stages: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Operations a byte and operations a second, of each stage and of the run, which is called so."""
    frames = run.account["frames"]
    y, x = run.attrs["frame_shape"]
    operations = float(y * x * finder_operations(run.window))
    points = {
        name: (operations / _bytes_a_frame(run, name, stage, frames), operations * frames / stage["busy_seconds"])
        for name, stage in stages.items()
        if stage["nbytes"]
    }
    if not (decoded := run.decoded_bytes):
        raise AbsentError("The dataset does not say how many bytes of frames were decoded: process the archive again.")
    worker_seconds = run.account["workers"] * run.account["seconds"]
    return points | {"the run": (operations * frames / decoded, operations * frames / worker_seconds)}


def _bytes_a_frame(run: RunRecord, name: str, stage: dict[str, Any], frames: int) -> float:
    if name != ("kernel" if "kernel" in run.stages else "find"):
        return float(stage["nbytes"]) / frames
    # What crosses between memory and cache, with the pedestal once a frame.
    shape = (int(run.attrs["frame_shape"][0]), int(run.attrs["frame_shape"][1]))
    return finder_traffic(shape, frame_itemsize=max(1, round(stage["nbytes"] / frames / (shape[0] * shape[1])))).nbytes


def _draw_slopes(axes: Axes, lines: list[_Line], limits: tuple[float, float], roof: float) -> None:
    """A line of slope 1 for each ceiling in bytes a second, up to the roof, in the colour of the stage it is of."""
    left, _ = limits
    for line in lines:
        axes.plot(
            [left, roof / line.rate], [line.rate * left, roof], color=line.colour or FAINT,
            linewidth=1.8 if line.colour else 0.8, linestyle="-" if line.colour else "--", zorder=1,
        )  # fmt: skip


def _name_slopes(axes: Axes, lines: list[_Line], roof: float) -> None:
    """Names where the lines end, above the roof; those that end near each other have one together."""
    groups: list[list[_Line]] = []
    for line in sorted(lines, key=lambda line: -line.rate):
        if groups and groups[-1][0].rate < _ROOM * line.rate:
            groups[-1].append(line)
        else:
            groups.append([line])
    for group in groups:
        first = group[0]
        names = [spelled(_short(line.name)) for line in group]
        named = ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"
        colour = next((line.colour for line in group if line.colour), INK)
        axes.annotate(
            f"{named} {first.said}", (roof / first.rate, roof),
            xytext=(0, 5), textcoords="offset points", rotation=_LEAN, rotation_mode="anchor", fontsize=_POINTS,
            color=colour, va="bottom", in_layout=False,
        )  # fmt: skip


def _draw_roofs(axes: Axes, roofs: dict[str, float], limits: tuple[float, float], *, apart: bool) -> None:
    """Level lines; their names at them, or together above the highest."""
    for roof in roofs.values():
        axes.plot(limits, [roof, roof], color=INK, linewidth=1.4)
    highest = max(roofs.values())
    names = {name: f"{name} {roof / 1e9:,.0f} Gop/s" for name, roof in roofs.items()}
    above = [said for name, said in names.items() if roofs[name] == highest or not apart]
    axes.text(limits[0] * 1.1, highest * 1.08, "\n".join(above), va="bottom", fontsize=8.5)
    # They may lie close together: the others are named below theirs.
    for name, said in names.items():
        if said not in above:
            axes.text(limits[0] * 1.1, roofs[name] * 0.92, said, va="top", fontsize=8.5)


def _colour(name: str, stages: dict[str, dict[str, Any]]) -> str | None:
    return {stage["ceiling"]: STAGES[stage_name] for stage_name, stage in stages.items()}.get(name)


def _is_of_any_run(name: str) -> bool:
    """Whether a ceiling is the machine's, and not of some archive's chunks, some dataset's or some storage."""
    words = name.split(" ")
    return words[0] not in ("read", "write", "decode") or len(words) == 2


def _short(name: str) -> str:
    """What a ceiling is on, without what it was measured on."""
    words = name.split(" ")
    if words[0] == "read":
        return " ".join(words[:2])
    return name if _is_of_any_run(name) else words[0]


def _share(ceiling: dict[str, Any], workers: int) -> float:
    """What each worker gets, as :meth:`pipeline.ceilings.MeasuredCeiling.share`; of a GPU's, the whole GPU."""
    if ceiling["name"] in GPU_CEILINGS:
        return float(ceiling["one_core"]["median"])
    one = float(ceiling["one_core"]["median"])
    everything = ceiling["all_cores"]
    together = one * ceiling["cores"] if everything is None else float(everything["median"])
    return min(one, together / max(workers, 1))
