"""What was measured, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.race.contests import Row
from benchmarks.race.ladder import SPECTRUM_EDGES, Rung
from benchmarks.race.start import Start

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]

ROW_HEADINGS = (
    "work", "median", "quartiles", "", "against", "median", "ratio", "of core time", "goal", "clusters", "its clusters",
    "differ", "faults", "its faults",
)  # fmt: skip
RUNG_HEADINGS = ("idea", "µs/frame", "quartiles", "× the last", "core µs/frame", "clusters", "identical", "faults")


def as_json(
    about: Mapping[str, Any], rows: Sequence[Row], rungs: Sequence[Rung], start: Start | None
) -> dict[str, Any]:
    """All of it, as plain values."""
    return {
        **about,
        "rows": [_row(row) for row in rows],
        "ladder": [
            {
                "idea": rung.idea,
                "core_us_per_frame": rung.laps.median_core / rung.frames * 1e6,
                "us_per_frame": rung.laps.median / rung.frames * 1e6,
                "quartiles": [side / rung.frames * 1e6 for side in rung.laps.quartiles],
                "frames": rung.frames,
                "clusters": rung.laps.clusters,
                "identical": rung.identical,
                "minor_faults": rung.laps.faults,
                "spectrum": rung.spectrum,
            }
            for rung in rungs
        ],
        "spectrum_edges": SPECTRUM_EDGES,
        "start": None if start is None else asdict(start),
    }


def _row(row: Row) -> dict[str, Any]:
    rival = row.against
    return {
        "name": row.name,
        "unit": row.unit,
        "median": row.time,
        "quartiles": [side / row.per for side in row.ours.quartiles],
        "rival": row.rival,
        "rival_median": None if rival is None else rival.median / row.per_against,
        "rival_quartiles": None if rival is None else [side / row.per_against for side in rival.quartiles],
        "ratio": row.ratio,
        "core_median": row.ours.median_core / row.per,
        "core_ratio": row.core_ratio,
        "goal": row.goal,
        "reached": row.reached,
        "is_race": row.is_race,
        "clusters": row.ours.clusters,
        "rival_clusters": None if rival is None else rival.clusters,
        "differing": row.differing,
        "minor_faults": row.ours.faults,
        "rival_minor_faults": None if rival is None else rival.faults,
        "faults_settled": row.ours.settled and (rival is None or rival.settled),
    }


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """The tables of what `as_json` gave: headings, and rows of as many cells."""
    if result["rows"]:
        yield ROW_HEADINGS, [_row_cells(row) for row in result["rows"]]
    if result["ladder"]:
        yield RUNG_HEADINGS, list(_rung_cells(result["ladder"]))
    if start := result["start"]:
        seconds = sorted(start["loading"])
        yield (
            ("a new process until its first clusters", "s"),
            [
                ("with nothing compiled", f"{start['compiling']:.2f}"),
                ("with compiled code on disk, median", f"{seconds[len(seconds) // 2]:.2f}"),
            ],
        )


def _row_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    goal = ""
    if row["goal"] is not None:
        goal = f"{'≥' if row['is_race'] else '≤'} {row['goal']:g}" + ("" if row["reached"] else " missed")
    race = row["is_race"]
    return (
        row["name"],
        f"{row['median']:,.1f}",
        _spread(row["quartiles"]),
        row["unit"],
        row["rival"],
        _number(row["rival_median"], ",.1f"),
        _number(row["ratio"], ".2f"),
        _number(row["core_ratio"], ".2f"),
        goal,
        f"{row['clusters']:,}",
        _number(row["rival_clusters"] if race else None, ","),
        _number(row["differing"], ","),
        f"{row['minor_faults']:,}",
        _number(row["rival_minor_faults"], ","),
    )


def _rung_cells(rungs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    before: float | None = None
    for rung in rungs:
        time = rung["us_per_frame"]
        yield (
            rung["idea"],
            f"{time:,.1f}",
            _spread(rung["quartiles"]),
            "" if before is None else f"{before / time:.2f}",
            f"{rung['core_us_per_frame']:,.1f}",
            f"{rung['clusters']:,}",
            "yes" if rung["identical"] else "NO",
            f"{rung['minor_faults']:,}",
        )
        before = time


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _spread(quartiles: Sequence[float]) -> str:
    return f"{quartiles[0]:,.1f}-{quartiles[1]:,.1f}"
