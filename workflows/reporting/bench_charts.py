"""Pictures of a benchmark: its ladder, how far each variant's clusters are from the reference's, and their spectra.

Read is what ``photonflow benchmark`` writes: ``ladder``, a list of rungs with ``idea``, ``us_per_frame``,
``quartiles``, ``frames``, ``clusters``, ``identical``, and ``rows``, of which races have ``rival``, ``clusters``,
``rival_clusters``. A rung may have a ``spectrum`` (counts) with the result's ``spectrum_edges`` in ADU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import INK, STAGES, rows_height, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_BENCH = "No benchmark's results were given: run photonflow benchmark, and give its file with --bench."


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
        if row.get("is_race") and row.get("rival_clusters"):
            name = f"{row['rival']}: {row['name']}"
            found.append(Comparison(name, int(row["rival_clusters"]), int(row["clusters"])))
    if not found:
        raise AbsentError("The benchmark's results hold nothing to compare." if run.bench else NO_BENCH)
    return found


def ladder_chart(run: RunRecord, marked: int | None = None) -> Figure:
    """µs a frame for each rung, and how many times faster than the first it is; one of them may be marked."""
    steps = rungs(run)
    figure, axes = styled(rows_height(len(steps)))
    micros = np.array([step.microseconds for step in steps])
    spread = np.abs([[step.microseconds - step.lowest, step.highest - step.microseconds] for step in steps]).T
    names = [_cut(step.idea) for step in steps]
    colours = [STAGES["find"] if marked in (None, k) else STAGES["idle"] for k in range(len(steps))]
    axes.barh(range(len(steps)), micros, xerr=spread, color=colours, height=0.62, ecolor=INK)
    axes.set_yticks(range(len(steps)), names)
    axes.invert_yaxis()
    for row, step in enumerate(steps):
        said = f"  {step.microseconds:,.1f} µs, ×{micros[0] / step.microseconds:,.1f}"
        axes.text(step.highest, row, said, va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(micros.min() / 2, micros.max() * 12)
    axes.set_xlabel("µs a frame (log), and times faster than the first")
    axes.set_title("The ladder")
    return figure


def counts_chart(run: RunRecord) -> Figure:
    """How many clusters each variant found beyond its reference, in parts per million."""
    found = comparisons(run)
    figure, axes = styled(rows_height(len(found)))
    differ = [comparison.parts_per_million for comparison in found]
    axes.barh(range(len(found)), differ, color=STAGES["decode"], height=0.62)
    axes.set_yticks(range(len(found)), [_cut(comparison.name) for comparison in found])
    axes.invert_yaxis()
    for row, (comparison, value) in enumerate(zip(found, differ, strict=True)):
        axes.text(max(value, 0), row, f"  {comparison.clusters:,} ({value:+,.1f} ppm)", va="center", fontsize=9)
    reach = max(1.0, *(abs(value) for value in differ))
    axes.set_xlim(min(0.0, *differ) * 1.1 - 0.02 * reach, 1.8 * reach)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("clusters beyond the reference's [ppm]; of a rival, beyond ours")
    axes.set_title("Clusters of each variant against the reference")
    return figure


def spectra_chart(run: RunRecord) -> Figure:
    """The spectra of all variants on top of each other."""
    found = [step for step in rungs(run) if step.spectrum]
    edges = run.bench.get("spectrum_edges")
    if len(found) < 2 or not edges:
        raise AbsentError("The benchmark's results hold no spectra of its variants.")
    figure, axes = styled(3.9)
    for place, step in enumerate(found):
        style = {"linewidth": 3.0, "color": STAGES["idle"]} if place == 0 else {"linewidth": 0.9}
        axes.stairs(np.array(step.spectrum) / max(step.frames, 1), edges, label=_cut(step.idea), **style)
    axes.set_xlabel("cluster energy [ADU]")
    axes.set_ylabel("clusters a bin and frame")
    axes.legend()
    axes.set_title("Spectra of all variants, overlaid")
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


def _cut(name: str) -> str:
    return name if len(name) <= 34 else name[:33] + "…"
