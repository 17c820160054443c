"""Pictures of a run: its stages beside their ceilings, its roofline, its batches on the workers, its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cluster_store import FrameStatus
from pipeline.ceilings.gpu import GPU_CEILINGS
from roofline.stencil import finder_operations, finder_traffic
from workflows.reporting.run_record import AbsentError, RunRecord, is_of_a_gpu
from workflows.reporting.style import ACCENT, FAINT, INK, PARTS, STAGES, rows_height, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of more workers than these the timeline shows the first ones: rows would be too thin to see.
MOST_ROWS = 24
# A batch's moments and its stages are told by two clocks, in s.
CLOCKS = 1e-3


# Names are written at lines that are so many times apart.
_ROOM = 1.35
_ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


def stage_bars(run: RunRecord) -> Figure:
    """µs of a worker for each stage of a frame, the tallest marked, and what each would take at its ceiling."""
    stages, frames = run.require_stages(), run.account["frames"]
    names = [*stages, "idle"]
    labels = [f"· {name}" if is_of_a_gpu(stages.get(name, {})) else name for name in names]
    seconds = [*(stage["busy_seconds"] for stage in stages.values()), run.account["idle_seconds"]]
    figure, axes = styled(rows_height(len(names)))
    micros = np.array(seconds) / frames * 1e6
    axes.barh(labels, micros, color=[STAGES[name] for name in names], height=0.62)
    axes.invert_yaxis()
    for row, (name, value) in enumerate(zip(names, micros, strict=True)):
        share = stages.get(name, {}).get("share_of_ceiling")
        said = f" {value:,.1f} µs"
        at_ceiling = 0.0
        if share is not None:
            at_ceiling = value * min(share, 1.0)
            axes.plot([at_ceiling, at_ceiling], [row - 0.36, row + 0.36], color=INK, linewidth=1.6)
            said += f", {share:.0%} of its ceiling"
        binds = name == run.account["binds"]
        axes.text(
            max(value, at_ceiling), row, said + "  ◀ binds" * binds, va="center", weight="bold" if binds else "normal",
            color=ACCENT if binds else INK, fontsize=9,
        )  # fmt: skip
    axes.set_xlim(0, 1.75 * max(micros.max(), 1e-9))
    of_gpus = "\n· of one GPU, within find, which waits for it" * any(map(is_of_a_gpu, stages.values()))
    axes.set_xlabel(f"time of one worker a frame [µs]; the black line: at the measured ceiling{of_gpus}")
    axes.set_title("What a frame costs, stage by stage")
    return figure


def roofline_chart(run: RunRecord) -> Figure:
    """Log-log: the finder's operations a byte, and operations a second, under every ceiling that was measured."""
    stages, frames, workers = run.require_stages(), run.account["frames"], run.account["workers"]
    ceilings = {ceiling["name"]: ceiling for ceiling in run.ceilings}
    if "float32" not in ceilings:
        raise AbsentError(
            "The machine's ceilings were not measured before the run: photonflow roofline measure ARCHIVE, then "
            "process again."
        )
    y, x = run.attrs["frame_shape"]
    operations = float(y * x * finder_operations(run.window))
    points = {
        name: (operations / _bytes_a_frame(run, name, stage, frames), operations * frames / stage["busy_seconds"])
        for name, stage in stages.items()
        if stage["nbytes"]
    }
    decoded = next(stage["nbytes"] for name, stage in stages.items() if "decode" in name)
    whole = operations * frames / decoded, operations * frames / (workers * run.account["seconds"])
    figure, axes = styled(4.9)
    roof_names = ["float32", "int32", *(["GPU float32"] if "kernel" in stages else [])]
    roofs = {name: _share(ceilings[name], workers) for name in roof_names if name in ceilings}
    intensities = [point[0] for point in (*points.values(), whole)]
    left, right = min(intensities) / 8, max(intensities) * 4
    axes.set(xscale="log", yscale="log", xlim=(left, right))
    rates = [whole[1], *(rate for _, rate in points.values())]
    axes.set_ylim(min(rates) / 4, max([*rates, *roofs.values()]) * 3)
    slopes = [ceiling for ceiling in ceilings.values() if ceiling["unit"] == "B/s"]
    _slopes(figure, axes, slopes, workers, stages, (left, right), max(roofs.values()))
    for name, roof in roofs.items():
        axes.plot([left, right], [roof, roof], color=INK, linewidth=1.4)
        # The highest is named above its line and the others below theirs: they may lie close together.
        above = roof == max(roofs.values())
        axes.text(
            right * 0.97, roof * (1.08 if above else 0.92), f"{name} {roof / 1e9:,.0f} Gop/s",
            ha="right", va="bottom" if above else "top", fontsize=8.5, bbox=_ON_WHITE, zorder=1.5,
        )  # fmt: skip
    for name, (where, rate) in points.items():
        axes.plot(where, rate, "o", color=STAGES[name], markersize=9, markeredgecolor=INK, label=name)
    axes.plot(*whole, "*", color=ACCENT, markersize=15, markeredgecolor=INK, label="the run")
    axes.set_xlabel("operations of the finder for each byte that the stage moves [op/B]")
    axes.set_ylabel(f"operations a second, a worker{' or GPU' * ('kernel' in stages)} [op/s]")
    axes.legend(loc="lower right")
    axes.set_title("Roofline: every measured ceiling, each stage, and the run")
    return figure


def timeline(run: RunRecord) -> Figure:
    """When each worker had which batch, in the shares of its stages; batches that failed are red.

    Batches that a worker has at the same time, one on each of its threads or of its GPU's streams, lie in lanes.
    """
    batches = run.require_batches()
    began, written = (_seconds(batches[name].to_numpy()) for name in ("began", "written"))
    zero = np.nanmin(began)
    workers = batches["worker"].to_numpy()
    names = [str(name) for name in batches.attrs.get("worker_names", [])] or [str(k) for k in np.unique(workers)]
    shown = names[:MOST_ROWS]
    figure, axes = styled(rows_height(len(shown) + 2))
    seconds = {
        name: batches[f"{name}_seconds"].to_numpy() for name in ("read", "decode", "find") if _has(batches, name)
    }
    if np.isnan(seconds.get("decode", np.array([np.nan]))).all():
        stage_seconds = {"read + decode": seconds["read"], "find": seconds["find"]}
    else:
        stage_seconds = {
            "read": seconds["read"] - seconds["decode"],
            "decode": seconds["decode"],
            "find": seconds["find"],
        }
    failed = batches["status"].to_numpy() != int(FrameStatus.OK)
    at = began - zero
    lane = _lanes(workers, at, at + sum(map(np.nan_to_num, stage_seconds.values())))
    height = 0.7 / (lane.max() + 1)
    rows = workers - 0.35 + height * (lane + 0.5)
    for name, values in stage_seconds.items():
        axes.barh(rows, np.where(failed, 0, values), left=at, height=height, color=STAGES[name], label=name)
        at = at + np.nan_to_num(values)
    if failed.any():
        axes.plot((began - zero)[failed], rows[failed], "X", color=ACCENT, markersize=9, label="failed")
    done = np.isfinite(written)
    axes.plot((written - zero)[done], np.full(done.sum(), len(shown)), "|", color=STAGES["write"], markersize=14)
    axes.set_yticks(range(len(shown) + 1), [*(f"worker {name}" for name in shown), "written"])
    axes.set_ylim(len(shown) + 0.6, -0.6)
    axes.set_xlabel("time since the first batch began [s]; each batch as the sums of its stages")
    figure.legend(loc="outside lower center", ncols=5)
    left_out = f" (the first {MOST_ROWS} of {len(names)} workers)" if len(names) > MOST_ROWS else ""
    axes.set_title(f"Batches on the workers{left_out}")
    return figure


def time_parts(run: RunRecord) -> Figure:
    """Where the workers' time went, from the first moment to the last."""
    run.require_stages()
    parts = {name: value for name, value in run.account["worker_seconds"].items() if value > 0}
    total = sum(parts.values())
    figure, axes = styled(rows_height(len(parts)))
    shares = [value / total for value in parts.values()]
    axes.barh(list(parts), shares, color=[PARTS[name] for name in parts], height=0.62)
    axes.invert_yaxis()
    for row, (share, value) in enumerate(zip(shares, parts.values(), strict=True)):
        axes.text(share, row, f" {share:.0%}  ({value:.2f} s)", va="center", fontsize=9)
    axes.set_xlim(0, 1.3 * max(shares))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share of all worker seconds")
    axes.set_title("Where the time went")
    return figure


def _bytes_a_frame(run: RunRecord, name: str, stage: dict[str, Any], frames: int) -> float:
    if name != ("kernel" if "kernel" in run.stages else "find"):
        return float(stage["nbytes"]) / frames
    # What crosses between memory and cache, with the pedestal once a frame.
    shape = (int(run.attrs["frame_shape"][0]), int(run.attrs["frame_shape"][1]))
    return finder_traffic(shape, frame_itemsize=max(1, round(stage["nbytes"] / frames / (shape[0] * shape[1])))).nbytes


def _slopes(
    figure: Figure,
    axes: Axes,
    ceilings: list[dict[str, Any]],
    workers: int,
    stages: dict[str, dict[str, Any]],
    limits: tuple[float, float],
    roof: float,
) -> None:
    """A line of slope 1 for each ceiling in bytes a second, up to the roof, with its name where there is room.

    Those that stages are compared with have the stage's colour, and their names before all others.
    """
    colours = {stage["ceiling"]: STAGES[name] for name, stage in stages.items()}
    (left, right), lowest = limits, axes.get_ylim()[0]
    figure.draw_without_rendering()  # Only now is it known how steep a line of slope 1 is.
    box, (bottom, top) = axes.get_window_extent(), axes.get_ylim()
    steep = np.degrees(np.arctan2(box.height / np.log10(top / bottom), box.width / np.log10(right / left)))
    named: list[float] = []
    # Of archives and datasets other than this run's there may be ceilings too.
    shown = [ceiling for ceiling in ceilings if ceiling["name"] in colours or _is_of_any_run(ceiling["name"])]
    for ceiling in sorted(shown, key=lambda ceiling: (ceiling["name"] not in colours, _share(ceiling, workers))):
        rate = _share(ceiling, workers)
        colour = colours.get(ceiling["name"])
        axes.plot(
            [left, roof / rate], [rate * left, roof], color=colour or FAINT,
            linewidth=1.8 if colour else 0.8, linestyle="-" if colour else "--", zorder=1,
        )  # fmt: skip
        if any(max(rate / other, other / rate) < _ROOM for other in named):
            continue
        named.append(rate)
        # Where the line comes in.
        start = max(left, lowest / rate) * 10**0.05
        axes.annotate(
            f"{_short(ceiling['name'])} {rate / 1e9:.2g} GB/s", (start, rate * start), xytext=(-3, 3),
            textcoords="offset points", rotation=float(steep), rotation_mode="anchor", fontsize=7,
            color=colour or INK, va="bottom", bbox=_ON_WHITE, zorder=1.5,
        )  # fmt: skip


def _is_of_any_run(name: str) -> bool:
    """Whether a ceiling is the machine's, and not of some archive's chunks, some dataset's or some storage."""
    words = name.split(" ")
    return words[0] not in ("read", "write", "decode") or len(words) == 2


def _short(name: str) -> str:
    """What a ceiling is on, without what it was measured on."""
    words = name.split(" ")
    if words[0] == "write":
        return "write"
    return "decode, this archive" if words[0] == "decode" and len(words) > 2 else " ".join(words[:2])


def _share(ceiling: dict[str, Any], workers: int) -> float:
    """What each worker gets, as :meth:`pipeline.ceilings.MeasuredCeiling.share`; of a GPU's, the whole GPU."""
    if ceiling["name"] in GPU_CEILINGS:
        return float(ceiling["one_core"]["median"])
    one = float(ceiling["one_core"]["median"])
    everything = ceiling["all_cores"]
    together = one * ceiling["cores"] if everything is None else float(everything["median"])
    return min(one, together / max(workers, 1))


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


def _has(batches: Any, name: str) -> bool:
    return f"{name}_seconds" in batches
