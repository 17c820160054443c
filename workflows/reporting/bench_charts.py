"""Pictures of a benchmark: its ladder, how far each variant's clusters are from the reference's, and their spectra."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from workflows.pictures import spelled
from workflows.reporting.bars import Bar, bar_chart
from workflows.reporting.bench_results import BenchResults, Comparison, Rung
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import ACCENT, INK, STAGES, Paper
from workflows.run_figures import microseconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_BENCH = "No benchmark's results were given: photonflow benchmark --out results.json, then --bench results.json."


# Of spectra that lie within each other: neighbours differ in lightness.
_SPECTRA = (STAGES["idle"], STAGES["read"], "#f0c48a", STAGES["kernel"], STAGES["D2H"], STAGES["write"], INK, ACCENT)


def tiny(run: RunRecord) -> str:
    """A sentence, with a space before it, about a benchmark whose times mean nothing; nothing about others."""
    return " Of a tiny benchmark (--tiny): its times mean nothing." * (run.bench is not None and run.bench.is_tiny)


def rungs(run: RunRecord) -> tuple[Rung, ...]:
    """The ladder as it was climbed.

    Raises:
        AbsentError: There is none.
    """
    if run.bench is None or not run.bench.rungs:
        raise AbsentError("The benchmark's results hold no ladder." if run.bench else NO_BENCH)
    return run.bench.rungs


def comparisons(run: RunRecord) -> list[Comparison]:
    """Every rung against one that is identical to the reference, and every rival against ours.

    Raises:
        AbsentError: There are none.
    """
    bench = run.bench or BenchResults()
    # Slow rungs are timed on fewer frames, so each is compared with one of as many: with the first, not with itself.
    sound = {step.frames: step for step in reversed(bench.rungs) if step.identical}
    found = [
        Comparison(step.idea, step.clusters, sound[step.frames].clusters)
        for step in bench.rungs
        if step.frames in sound and step is not sound[step.frames]
    ]
    found += bench.races
    if not found:
        raise AbsentError("The benchmark's results hold nothing to compare." if run.bench else NO_BENCH)
    return found


def ladder_chart(run: RunRecord, paper: Paper, marked: int | None = None) -> Figure:
    """µs a frame for each rung, and how many times faster than the first it is; one of them may be marked."""
    steps = rungs(run)
    slowest = steps[0].microseconds
    bars = [
        Bar(
            step.idea,
            step.microseconds,
            f"{microseconds(step.microseconds)} µs, ×{slowest / step.microseconds:,.1f}",
            STAGES["find"] if marked in (None, place) else STAGES["idle"],
            spread=(step.lowest, step.highest),
        )
        for place, step in enumerate(steps)
    ]
    lowest = min(min(step.microseconds, step.lowest) for step in steps) / 1.5
    label = f"µs a frame (logarithmic), and how many times faster than the first.{tiny(run)}"
    figure, axes = bar_chart(paper, bars, label, lowest=lowest, log=True)
    paper.entitle(axes, "The ladder")
    return figure


def counts_chart(run: RunRecord, paper: Paper) -> Figure:
    """How many clusters each variant found beyond its reference, in parts per million."""
    bars = [
        Bar(
            found.name,
            found.parts_per_million,
            f"{found.clusters:,} ({found.parts_per_million:+,.1f} ppm)",
            STAGES["decode"],
            line_at=0.0,
        )
        for found in comparisons(run)
    ]
    values = [bar.value for bar in bars]
    widest = max(map(abs, values))
    # Where all are alike a line at zero is all that there is to see.
    low, high = (min(0.0, *values) * 1.1 - 0.02 * widest, 0.0) if widest else (-1.0, 1.0)
    label = "clusters beyond the reference's [parts per million]; of a rival, beyond ours"
    figure, axes = bar_chart(paper, bars, label, lowest=low, highest=high)
    paper.entitle(axes, "Clusters of each variant against the reference")
    return figure


def spectra_chart(run: RunRecord, paper: Paper) -> Figure:
    """The spectra of all variants on top of each other."""
    found = [step for step in rungs(run) if step.spectrum]
    edges = run.bench.spectrum_edges if run.bench else ()
    if len(found) < 2:
        raise AbsentError("The benchmark's results hold no spectra of its variants.")
    figure, axes = paper.figure(3.9 + 0.2 * len(found) * paper.is_narrow)
    for place, step in enumerate(found):
        # From the widest to the narrowest, so that each is seen where all coincide.
        width = 0.9 + 0.9 * (len(found) - 1 - place)
        name = spelled(textwrap.shorten(step.idea, 40, placeholder="…"))
        axes.stairs(
            np.array(step.spectrum) / max(step.frames, 1),
            edges,
            label=name,
            linewidth=width,
            color=_SPECTRA[place % len(_SPECTRA)],
        )
    axes.set_xlabel("cluster energy [ADU]")
    axes.set_ylabel("clusters a bin and frame")
    if paper.is_narrow:
        figure.legend(loc="outside lower center")
    else:
        axes.legend()
    paper.entitle(axes, "Spectra of all variants, overlaid")
    return figure
