"""What a report says, part by part, for the page and for the slides alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pipeline.output.run_history import runs_of
from workflows import run_figures
from workflows.facts import human_bytes
from workflows.reporting import bench_charts, run_charts
from workflows.reporting.batch_table import worker_names
from workflows.reporting.cancellation import FRAMES, PIXELS, cancellation, cancellation_chart
from workflows.reporting.dataset_charts import eta_chart, hit_map_chart, spectrum_chart
from workflows.reporting.roofline_chart import HOW_TO_READ, roofline_chart
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import PAGE, PHONE, Paper, look, png
from workflows.reporting.tables import Rows, ceiling_rows, comparison_rows, rung_rows, stage_rows
from workflows.reporting.timeline_chart import span, timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A picture of a report.

    Args:
        name: Of its file.
        alt: What it shows, for who can't see it.
        figure: It, as wide as a page.
        drawn: It, on any paper.
    """

    name: str
    alt: str
    figure: Figure
    drawn: Callable[[Paper], Figure]

    @cached_property
    def for_phone(self) -> Figure:
        """It, as wide as a phone."""
        with look():
            return self.drawn(PHONE)

    @cached_property
    def png(self) -> bytes:
        """It, as PNG."""
        return png(self.figure)


@dataclass(frozen=True)
class Part:
    """A part of a report.

    Args:
        title: Its heading.
        says: What is said, in sentences.
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
        parts: By name; each shows something.
        absent: Of what is not in it, and why, in a sentence.
    """

    run: RunRecord
    facts: list[tuple[str, str]]
    parts: dict[str, Part]
    absent: dict[str, str]

    @property
    def title(self) -> str:
        """Its title."""
        return f"Photon clusters of {self.run.name}"

    @property
    def advice(self) -> str:
        """What binds the run, in a line."""
        return str(self.run.account.get("advice", "")) or "What bound the run was not kept in the dataset."

    @property
    def origin(self) -> str:
        """When the run that made the dataset complete began, and on what."""
        last = (runs_of(self.run.attrs) or [{}])[-1]
        day = str(last.get("began") or "")[:10]
        attrs = self.run.attrs
        machine = ", ".join(str(attrs[name]) for name in ("device", "host") if attrs.get(name))
        return f"Run of {day or 'an unknown day'} on {machine or 'an unknown machine'}."

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """What is not in it, together where the reason is the same, and the reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.absent.items():
            reasons.setdefault(reason, []).append(name)
        return [("; ".join(names), reason) for reason, names in reasons.items()]

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
    parts: dict[str, Part] = {}
    absent: dict[str, str] = {}
    for name, about in _PARTS.items():
        if only is not None and name not in only:
            continue
        part, reason = about.made(run)
        if reason:
            absent[about.title] = reason
        if part.picture is not None or part.table is not None:
            parts[name] = part
    absent |= _not_measured(run)
    return Report(run, list(_facts(run)), parts, absent)


def _stage_part(run: RunRecord) -> list[str]:
    account = run.account
    bound = account["bound_frames_a_second"]
    beyond = [f"{said[0].upper()}{said[1:]}." for said in [run_figures.exceeded(account)] if said]
    if bound is None:
        return [f"Without all ceilings there is no bound: {run_figures.how_to_know(account)}.", *beyond]
    workers = account["workers"]
    at_best = f"{workers} workers would do" if workers != 1 else "one worker would do"
    return [
        f"With every stage at its ceiling, and storage, cores and GPUs at work side by side, {at_best} "
        f"{run_figures.rate(bound)} frames/s; {run_figures.rate(account['frames_a_second'])} were reached, "
        f"{run_figures.percent(account['share_of_bound'])} of that. ◀ marks the stage in which most time went.",
        *beyond,
    ]


_TIME_MEANS = {
    "in the stages": "with nothing to compare it with, because a ceiling was not measured",
    "at the bound": "what the busiest of storage, cores and GPUs needs at its ceilings",
    "overlap lost": "what the others took instead of being hidden behind it",
    "below ceilings": "what stages took beyond their ceilings",
    "start-up": "before the first batch",
    "waiting": "for work",
    "stragglers": "others still worked",
    "finishing": "after the last batch",
}


def _time_part(run: RunRecord) -> list[str]:
    parts = run.account["worker_seconds"]
    means = [f"{name}: {means}" for name, means in _TIME_MEANS.items() if parts.get(name, 0) > 0]
    return [
        f"Parts of the workers' time: {'; '.join(means)}.",
        f"Page faults, first touches of memory: {run_figures.page_faults(run.account)}.",
    ]


def _batches_part(run: RunRecord) -> list[str]:
    batches = run.require_batches()
    failed = int((batches["status"] != 0).sum())
    n = int(batches.sizes["batch"])
    names = worker_names(batches)
    idle = [names[k] for k in range(len(names)) if not (batches["worker"] == k).any()]
    says = [f"{n:,} batch{'es' * (n != 1)}, each as the sum of its stages; the last row: writing, by whichever worker."]
    if span(run.account, batches)[1]:
        finishing = run.account["worker_seconds"]["finishing"] / max(run.account["workers"], 1)
        says.append(
            f"It ends with the run, after {run.account['seconds']:.2f} s, the last {finishing:.2f} of them finishing: "
            "tables and metadata. Start-up is before it."
        )
    if run.batches is not None and (earlier := int(run.batches.sizes["batch"]) - n):
        says.append(f"Of an earlier run {earlier:,} more: not shown.")
    if idle:
        says.append(f"Without a batch: worker{'s' * (len(idle) != 1)} {', '.join(idle)}.")
    if failed:
        skipped = batches.attrs.get("skipped")
        causes = "; ".join(map(str, skipped[:3])) if isinstance(skipped, list) else ""
        says.append(f"{failed:,} of them failed, and their frames are not in the dataset{': ' * bool(causes)}{causes}.")
    return says


def _nothing(run: RunRecord) -> list[str]:
    return []


def _ladder_part(run: RunRecord) -> list[str]:
    bench = run.bench
    if bench is None or not bench.rungs:
        return []
    return [
        f"The benchmark's own, of {bench.conditions}: not to be compared with the run's times.{bench_charts.tiny(run)}"
    ]


def _spectrum_part(run: RunRecord) -> list[str]:
    return [
        "How many clusters have which energy, the sum of their window: one photon is the peak, two at once the next."
    ]


def _hit_map_part(run: RunRecord) -> list[str]:
    return ["How many clusters have their centre in each pixel: photons where the beam was, or a pixel that fires."]


def _eta_part(run: RunRecord) -> list[str]:
    return ["How the charge of a photon is split between a pixel and its neighbours, which tells where in it it fell."]


def _counts_part(run: RunRecord) -> list[str]:
    says = "The two counts of a row are of the same frames, found with the same settings. "
    says += "Between rows these differ: noise running or trained, and batches, each of which starts from the trained "
    says += f"pedestal: one on one core, two on two cores and in the ladder.{_of_tiny(run)}"
    return [says]


def _spectra_part(run: RunRecord) -> list[str]:
    return [
        f"Spectra that coincide lie within each other, the first the widest and the last the narrowest.{_of_tiny(run)}"
    ]


def _of_tiny(run: RunRecord) -> str:
    return " Of a tiny benchmark (--tiny): a few small frames." * (run.bench is not None and run.bench.is_tiny)


def _cancellation_part(run: RunRecord) -> list[str]:
    errors = cancellation()
    at = int(abs(errors.means - 4655).argmin())
    return [
        f"At a mean of {errors.means[at]:,.0f} ADU the variance from raw float32 moments is off by "
        f"{errors.raw[at]:.1%} in the median, and {errors.lost[at]:.1%} of the pixels get none at all and fire in "
        f"every frame; around X0 it is off by {errors.centred[at]:.0e}. Computed for this report: {PIXELS} pixels, "
        f"{FRAMES:,} frames a point."
    ]


def _cancellation_chart(run: RunRecord, paper: Paper) -> Figure:
    # It explains what the benchmark's variants differ by, and says nothing of a run.
    if not run.bench:
        raise AbsentError(bench_charts.NO_BENCH)
    return cancellation_chart(cancellation(), paper)


@dataclass(frozen=True)
class _About:
    """How a part is made.

    Args:
        title: Its heading.
        alt: What its picture shows.
        draw: Draws that.
        says: What is said beside it.
        tabulate: Figures.
    """

    title: str
    alt: str
    draw: Callable[[RunRecord, Paper], Figure]
    says: Callable[[RunRecord], list[str]] = _nothing
    tabulate: Callable[[RunRecord], Rows] | None = None

    def made(self, run: RunRecord) -> tuple[Part, str]:
        """The part, and why there is no picture or no table; empty if there are."""
        says: list[str] = []
        reason, picture, table = "", None, None
        try:
            with look():
                figure = self.draw(run, PAGE)
            name = self.title.lower().replace(" ", "_")
            picture = Picture(name, f"{self.alt}.", figure, lambda paper: self.draw(run, paper))
            says += self.says(run)
        except AbsentError as absent:
            reason = str(absent)
        if self.tabulate is not None:
            try:
                table = self.tabulate(run)
            except AbsentError as absent:
                reason = reason or str(absent)
        return Part(self.title, says, picture, table), reason


_PARTS = {
    "stages": _About(
        "Stage by stage", "Bars: µs a frame of each stage", run_charts.stage_bars, _stage_part, stage_rows
    ),
    "roofline": _About(
        "Roofline", "Log-log plot of ceilings and stages", roofline_chart, lambda _: [HOW_TO_READ], ceiling_rows
    ),
    "time": _About("Where the time went", "Bars: shares of the workers' time", run_charts.time_parts, _time_part),
    "timeline": _About("Batches on workers", "Timeline of batches on workers", timeline, _batches_part),
    "spectrum": _About(
        "Spectrum", "Histogram of cluster energies with its fitted peak", spectrum_chart, _spectrum_part
    ),
    "hit_map": _About("Hit map", "Map of clusters in each pixel", hit_map_chart, _hit_map_part),
    "eta": _About("Eta", "Map of how charge is split between neighbouring pixels", eta_chart, _eta_part),
    "ladder": _About(
        "The ladder", "Points: µs a frame of each rung", bench_charts.ladder_chart, _ladder_part, rung_rows
    ),
    "counts": _About(
        "Variants against the reference",
        "Bars: parts per million",
        bench_charts.counts_chart,
        _counts_part,
        comparison_rows,
    ),
    "spectra": _About("Spectra of the variants", "Overlaid histograms", bench_charts.spectra_chart, _spectra_part),
    "cancellation": _About(
        "Why float32 is enough", "Error of the variance over the mean", _cancellation_chart, _cancellation_part
    ),
}


def _not_measured(run: RunRecord) -> dict[str, str]:
    """What a machine without a GPU has no figures of, and ceilings that could not be measured."""
    absent: dict[str, str] = {}
    if run.stages and not any(map(run_figures.is_of_a_gpu, run.stages.values())):
        absent["The stages of a GPU (H2D, kernel, D2H)"] = "This run used no GPU."
    names: dict[str, list[str]] = {}
    for ceiling in (run.account.get("ceilings") or {"ceilings": []})["ceilings"]:
        if ceiling["one_core"] is None:
            names.setdefault(str(ceiling.get("missing") or "not measured"), []).append(ceiling["name"])
    return absent | {
        f"Ceilings of {'; '.join(of)}": f"{reason[0].upper()}{reason[1:]}." for reason, of in names.items()
    }


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    account = run.account
    yield "frames", f"{run.n_frames:,}"
    yield "clusters", f"{run.n_clusters:,}"
    if (mean := run.clusters_a_frame) is not None:
        yield "clusters a frame", f"{mean:,.1f}"
    if account:
        if account["frames"] != run.n_frames:
            yield "frames of its last run", run_figures.own_frames(account, run.n_frames)
        yield "seconds, start-up left out", f"{account['seconds']:.2f}"
        yield "seconds to start up", f"{run_figures.startup_seconds(account):.2f}"
        yield "frames/s", run_figures.rate(account["frames_a_second"])
        yield "share of the bound", run_figures.percent(account["share_of_bound"], "not measured")
        yield "workers", str(account["workers"])
    threshold = run.attrs.get("n_sigma", "?")
    yield "threshold", f"{threshold:g} σ" if isinstance(threshold, int | float) else f"{threshold} σ"
    yield "window", f"{run.window[0]}×{run.window[1]} pixels"
    if (decoded := run.decoded_bytes) is not None:
        yield "decoded by its last run" if account["frames"] != run.n_frames else "frames decoded", human_bytes(decoded)
    yield "machine", str(run.attrs.get("device", "unknown"))
