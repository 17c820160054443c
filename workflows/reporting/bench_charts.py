"""Pictures of a benchmark: its ladder, how far each variant's clusters are from the reference's, and their spectra.

Read is what ``photonflow benchmark`` writes: ``ladder``, a list of rungs with ``idea``, ``us_per_frame``,
``quartiles``, ``frames``, ``clusters``, ``identical``, and ``rows``, of which races have ``rival``, ``clusters``,
``rival_clusters``. A rung may have a ``spectrum`` (counts) with the result's ``spectrum_edges`` in ADU.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workflows.reporting.bars import Bar, bar_chart
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import STAGES, Paper
from workflows.run_figures import microseconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_BENCH = "No benchmark's results were given: photonflow benchmark --out results.json, then --bench results.json."


@dataclass(frozen=True)
class Rung:
    """One step of a ladder.

    Args:
        idea: What was done.
        microseconds: µs a frame, the median of repeats.
        lowest: The first quartile.
        highest: The third quartile.
        frames: Frames that it was timed on.
        clusters: How many were found in them.
        identical: Whether they are the reference's, to the last bit.
        spectrum: Counts, or nothing.
    """

    idea: str
    microseconds: float
    lowest: float
    highest: float
    frames: int
    clusters: int
    identical: bool
    spectrum: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """Two counts of the clusters of the same frames.

    Args:
        name: Whose count it is.
        clusters: It.
        reference: What it is compared with.
    """

    name: str
    clusters: int
    reference: int

    @property
    def parts_per_million(self) -> float:
        """How many more than the reference."""
        return 1e6 * (self.clusters / max(self.reference, 1) - 1)


def rungs(run: RunRecord) -> list[Rung]:
    """The ladder as it was climbed.

    Raises:
        AbsentError: There is none.
        ValueError: It can't be read.
    """
    found = [_rung(values) for values in _list(run, "ladder")]
    if not found:
        raise AbsentError("The benchmark's results hold no ladder." if run.bench else NO_BENCH)
    return found


def comparisons(run: RunRecord) -> list[Comparison]:
    """Every rung against one that is identical to the reference, and every rival against ours.

    Raises:
        AbsentError: There are none.
    """
    steps = [_rung(values) for values in _list(run, "ladder")]
    # Slow rungs are timed on fewer frames, so each is compared with one of as many.
    sound = {step.frames: step.clusters for step in steps if step.identical}
    found = [Comparison(step.idea, step.clusters, sound[step.frames]) for step in steps if step.frames in sound]
    for row in _list(run, "rows"):
        # A whole run goes through many times the rival's frames.
        if row.get("is_race") and row.get("rival_clusters") and row["clusters"] < 2 * row["rival_clusters"]:
            name = f"{row['rival']}: {row['name']}"
            found.append(Comparison(name, int(row["rival_clusters"]), int(row["clusters"])))
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
    lowest = min(step.microseconds for step in steps) / 2
    label = "µs a frame (logarithmic), and how many times faster than the first"
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
    lowest = min(0.0, *values) * 1.1 - 0.02 * max(1.0, *map(abs, values))
    label = "clusters beyond the reference's [parts per million]; of a rival, beyond ours"
    figure, axes = bar_chart(paper, bars, label, lowest=lowest)
    paper.entitle(axes, "Clusters of each variant against the reference")
    return figure


def spectra_chart(run: RunRecord, paper: Paper) -> Figure:
    """The spectra of all variants on top of each other."""
    found = [step for step in rungs(run) if step.spectrum]
    edges = run.bench.get("spectrum_edges")
    if len(found) < 2 or not edges:
        raise AbsentError("The benchmark's results hold no spectra of its variants.")
    figure, axes = paper.figure(3.9 + 0.2 * len(found) * paper.is_narrow)
    for place, step in enumerate(found):
        style = {"linewidth": 3.0, "color": STAGES["idle"]} if place == 0 else {"linewidth": 0.9}
        name = textwrap.shorten(step.idea, 40, placeholder="…")
        axes.stairs(np.array(step.spectrum) / max(step.frames, 1), edges, label=name, **style)
    axes.set_xlabel("cluster energy [ADU]")
    axes.set_ylabel("clusters a bin and frame")
    if paper.is_narrow:
        figure.legend(loc="outside lower center")
    else:
        axes.legend()
    paper.entitle(axes, "Spectra of all variants, overlaid")
    return figure


def _list(run: RunRecord, name: str) -> list[dict[str, Any]]:
    values = run.bench.get(name)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _rung(values: dict[str, Any]) -> Rung:
    try:
        time = float(values["us_per_frame"])
        lowest, highest = map(float, values.get("quartiles") or (time, time))
        spectrum = tuple(values.get("spectrum") or ())
        return Rung(
            idea=str(values["idea"]),
            microseconds=time,
            lowest=lowest,
            highest=highest,
            frames=int(values["frames"]),
            clusters=int(values["clusters"]),
            identical=bool(values["identical"]),
            spectrum=spectrum,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"a rung of the benchmark's ladder can't be read ({error!r}): give what photonflow benchmark wrote"
        ) from error
