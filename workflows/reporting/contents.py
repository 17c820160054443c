"""What a report says, part by part, for the page and for the slides alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workflows.facts import human_bytes
from workflows.reporting import bench_charts, run_charts
from workflows.reporting.cancellation import FRAMES, PIXELS, cancellation, cancellation_chart
from workflows.reporting.dataset_charts import hit_map_chart, spectrum_chart
from workflows.reporting.run_record import AbsentError, RunRecord, is_of_a_gpu
from workflows.reporting.style import look, png, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A picture of a report.

    Args:
        name: Of its file.
        alt: What it shows, for who can't see it.
        svg: It, as SVG.
        png: It, as PNG.
    """

    name: str
    alt: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Rows:
    """A small table.

    Args:
        headings: Of its columns.
        rows: Texts; numbers are told by their look.
    """

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Part:
    """A part of a report.

    Args:
        title: Its heading.
        says: What is said, in sentences; also that something is absent, and why.
        picture: What is shown, if anything.
        table: Figures beside it, if any.
    """

    title: str
    says: list[str] = field(default_factory=list)
    picture: Picture | None = None
    table: Rows | None = None


@dataclass(frozen=True)
class Report:
    """A report of one run.

    Args:
        run: What it is made from.
        facts: What the run was, as names and texts.
        parts: By name.
    """

    run: RunRecord
    facts: list[tuple[str, str]]
    parts: dict[str, Part]

    @property
    def title(self) -> str:
        """Its title."""
        return f"Photon clusters of {self.run.name}"

    @property
    def advice(self) -> str:
        """What binds the run, in a line."""
        return str(self.run.account.get("advice", "")) or "What bound the run was not kept in the dataset."

    @property
    def pictures(self) -> list[Picture]:
        """All that there are."""
        return [part.picture for part in self.parts.values() if part.picture is not None]


def make_report(run: RunRecord, only: Collection[str] | None = None) -> Report:
    """Draw everything that there is something measured for, and say what there isn't.

    Args:
        run: What it is made from.
        only: Names of the parts to make; None makes all.
    """
    chosen = {name: about for name, about in _PARTS.items() if only is None or name in only}
    return Report(run, list(_facts(run)), {name: _part(run, *about) for name, about in chosen.items()})


def stage_rows(run: RunRecord) -> Rows:
    """The stages as figures.

    Raises:
        AbsentError: They were not kept.
    """
    rows: list[tuple[str, ...]] = [
        (
            f"{'· ' * is_of_a_gpu(stage)}{name}",
            _number(stage["microseconds_a_frame"], ",.1f"),
            _gigabytes(stage["bytes_a_second"]),
            _gigabytes(stage["ceiling_bytes_a_second"]),
            _number(stage["share_of_ceiling"], ".0%"),
            _limit(stage),
        )
        for name, stage in run.require_stages().items()
    ]
    idle = run.account["idle_seconds"] / run.account["frames"] * 1e6
    rows.append(("idle", f"{idle:,.1f}", "", "", "", ""))
    if not any(map(is_of_a_gpu, run.stages.values())):
        rows.extend((name, "not measured", "", "", "", "this run used no GPU") for name in ("H2D", "kernel", "D2H"))
    return Rows(("stage", "µs a frame", "GB/s a worker", "ceiling", "reached", "limited by"), rows)


def _limit(stage: Mapping[str, Any]) -> str:
    if stage["ceiling_bytes_a_second"] is None:
        return "not measured"
    return f"{stage['ceiling']}{': exceeded, so measured too low' * stage.get('exceeds_ceiling', False)}"


def ceiling_rows(run: RunRecord) -> Rows:
    """Every ceiling that was measured, and those that were not.

    Raises:
        AbsentError: None was.
    """
    kept = run.account.get("ceilings")
    if not kept:
        raise AbsentError("No ceilings were measured on this machine: photonflow roofline measure ARCHIVE.")
    scale = {"B/s": (1e9, "GB/s"), "op/s": (1e9, "Gop/s"), "fault/s": (1e6, "million/s")}
    rows: list[tuple[str, ...]] = []
    for ceiling in kept["ceilings"]:
        if ceiling["one_core"] is None:
            rows.append((ceiling["name"], "not measured", "", ""))
            continue
        unit, name = scale[ceiling["unit"]]
        both = (ceiling["one_core"], ceiling["all_cores"])
        rows.append((ceiling["name"], *("–" if s is None else f"{s['median'] / unit:,.2f}" for s in both), name))
    return Rows(("ceiling", "one core", "all cores", "unit"), rows)


def rung_rows(run: RunRecord) -> Rows:
    """The ladder as figures.

    Raises:
        AbsentError: There is none.
    """
    steps = bench_charts.rungs(run)
    rows = [
        (
            step.idea,
            f"{step.microseconds:,.1f}",
            f"×{steps[0].microseconds / step.microseconds:,.1f}",
            f"{step.clusters:,}",
            "yes" if step.identical else "NO",
        )
        for step in steps
    ]
    return Rows(("idea", "µs a frame", "ratio", "clusters", "identical"), rows)


def comparison_rows(run: RunRecord) -> Rows:
    """Counts of clusters beside their reference.

    Raises:
        AbsentError: There is nothing to compare.
    """
    rows = [
        (found.name, f"{found.clusters:,}", f"{found.reference:,}", f"{found.parts_per_million:+,.1f}")
        for found in bench_charts.comparisons(run)
    ]
    return Rows(("variant", "clusters", "reference", "ppm"), rows)


def _stage_part(run: RunRecord) -> list[str]:
    bound, reached = run.account["bound_frames_a_second"], run.account["frames_a_second"]
    if bound is None:
        return ["Without all ceilings there is no bound: photonflow roofline measure ARCHIVE, then process again."]
    return [
        f"With every stage at its ceiling, and storage, cores and GPUs at work side by side, {run.account['workers']} "
        f"workers would do {bound:,.0f} frames/s; {reached:,.0f} were reached, {reached / bound:.0%} of that."
    ]


def _time_part(run: RunRecord) -> list[str]:
    faults, each = run.account["minor_faults"], run.account["seconds_a_fault"]
    if each is None:
        return [f"{faults:,} page faults; what one costs on this machine was not measured."]
    return [f"{faults:,} page faults of {each * 1e6:.2f} µs took {faults * each:.2f} of the workers' seconds."]


def _batches_part(run: RunRecord) -> list[str]:
    batches = run.require_batches()
    failed = int((batches["status"] != 0).sum())
    n = int(batches.sizes["batch"])
    workers = len(batches.attrs.get("worker_names", []))
    says = [f"{n:,} batch{'es' * (n != 1)} on {workers} worker{'s' * (workers != 1)}; the row below: rows written."]
    if failed:
        skipped = [str(line) for line in batches.attrs.get("skipped", [])]
        says.append(f"{failed:,} of them failed, and their frames are not in the dataset: {'; '.join(skipped[:3])}.")
    return says


def _nothing(run: RunRecord) -> list[str]:
    return []


def _ladder_part(run: RunRecord) -> list[str]:
    machine = run.bench.get("machine")
    words = machine if isinstance(machine, str) else ", ".join(map(str, machine.values())) if machine else ""
    return [f"Measured {run.bench.get('measured', '')} on {words}."] if words else []


def _cancellation_part(run: RunRecord) -> list[str]:
    errors = cancellation()
    at = int(abs(errors.means - 4655).argmin())
    return [
        f"At a mean of {errors.means[at]:,.0f} ADU the variance from raw float32 moments is off by "
        f"{errors.raw[at]:.1%} in the median, and {errors.lost[at]:.1%} of the pixels get none at all and fire in "
        f"every frame; around X0 it is off by {errors.centred[at]:.0e}. Computed for this report: {PIXELS} pixels, "
        f"{FRAMES:,} frames a point."
    ]


_Says = Callable[[RunRecord], list[str]]
_PARTS: dict[str, tuple[str, str, Callable[[RunRecord], Figure], _Says, Callable[[RunRecord], Rows] | None]] = {
    "stages": ("Stage by stage", "Bars: µs a frame of each stage", run_charts.stage_bars, _stage_part, stage_rows),
    "roofline": ("Roofline", "Log-log plot of ceilings and stages", run_charts.roofline_chart, _nothing, ceiling_rows),
    "time": ("Where the time went", "Bars: shares of the workers' time", run_charts.time_parts, _time_part, None),
    "timeline": ("Batches on workers", "Timeline of batches on workers", run_charts.timeline, _batches_part, None),
    "spectrum": ("Spectrum", "Histogram of cluster energies with its fitted peak", spectrum_chart, _nothing, None),
    "hit_map": ("Hit map", "Map of clusters in each pixel", hit_map_chart, _nothing, None),
    "ladder": ("The ladder", "Bars: µs a frame of each rung", bench_charts.ladder_chart, _ladder_part, rung_rows),
    "counts": ("Variants against the reference", "Bars: ppm", bench_charts.counts_chart, _nothing, comparison_rows),
    "spectra": ("Spectra of the variants", "Overlaid histograms", bench_charts.spectra_chart, _nothing, None),
    "cancellation": (
        "Why float32 is enough",
        "Error of the variance over the mean",
        lambda run: cancellation_chart(cancellation()),
        _cancellation_part,
        None,
    ),
}  # fmt: skip


def _part(
    run: RunRecord,
    title: str,
    alt: str,
    draw: Callable[[RunRecord], Figure],
    say: _Says,
    tabulate: Callable[[RunRecord], Rows] | None,
) -> Part:
    says: list[str] = []
    picture = table = None
    try:
        with look():
            figure = draw(run)
            picture = Picture(title.lower().replace(" ", "_"), f"{alt}.", svg(figure), png(figure))
        says += say(run)
    except AbsentError as absent:
        says.append(str(absent))
    if tabulate is not None:
        try:
            table = tabulate(run)
        except AbsentError as absent:
            if str(absent) not in says:
                says.append(str(absent))
    return Part(title, says, picture, table)


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    account = run.account
    yield "frames", f"{run.n_frames:,}"
    yield "clusters", f"{run.n_clusters:,}"
    if account:
        yield "frames/s", _number(account["frames_a_second"], ",.0f")
        yield "of the bound", _number(account["share_of_bound"], ".0%", "not measured")
        yield "workers", str(account["workers"])
    yield "threshold", f"{run.attrs.get('n_sigma', '?')} σ, {run.window[0]}×{run.window[1]} window"
    yield "machine", str(run.attrs.get("device", "unknown"))
    if run.stages:
        decoded = max(stage["nbytes"] for stage in run.stages.values() if not is_of_a_gpu(stage))
        yield "frames decoded", human_bytes(decoded)


def _number(value: float | None, form: str, absent: str = "–") -> str:
    return absent if value is None or not math.isfinite(value) else format(value, form)


def _gigabytes(rate: float | None) -> str:
    return _number(None if rate is None else rate / 1e9, ".2f")
