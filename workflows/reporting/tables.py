"""The figures of a report as small tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflows import run_figures
from workflows.reporting import bench_charts
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.run_figures import Values


@dataclass(frozen=True)
class Rows:
    """A small table.

    Args:
        headings: Of its columns.
        rows: Texts; numbers are told by their look.
    """

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def stage_rows(run: RunRecord) -> Rows:
    """The stages as figures: the table at the end of a run.

    Raises:
        AbsentError: They were not kept.
    """
    run.require_stages()
    return Rows(run_figures.STAGE_HEADINGS, run_figures.stage_rows(run.account))


def ceiling_rows(run: RunRecord) -> Rows:
    """Every ceiling that was measured.

    Raises:
        AbsentError: None was.
    """
    if not run.ceilings:
        raise AbsentError(f"No ceilings were measured on this machine: {run_figures.how_to_know(run.account)}.")
    return Rows(
        ("ceiling", "one core", "all cores together"),
        [(c["name"], _rate(c["one_core"], c["unit"]), _rate(c["all_cores"], c["unit"])) for c in run.ceilings],
    )


def _rate(spread: Values | None, unit: str) -> str:
    scale, name = {"B/s": (1e9, "GB/s"), "op/s": (1e9, "Gop/s"), "fault/s": (1e6, "million/s")}[unit]
    return "–" if spread is None else f"{spread['median'] / scale:,.2f} {name}"


def rung_rows(run: RunRecord) -> Rows:
    """The ladder as figures.

    Raises:
        AbsentError: There is none.
    """
    steps = bench_charts.rungs(run)
    rows = [
        (
            step.idea,
            run_figures.microseconds(step.microseconds),
            f"×{steps[0].microseconds / step.microseconds:,.1f}",
            f"{step.frames:,}",
            f"{step.clusters:,}",
            "reference" if step.is_reference and step.identical else "yes" if step.identical else "NO",
        )
        for step in steps
    ]
    return Rows(("idea", "µs a frame", "ratio", "frames", "clusters", "identical"), rows)


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
