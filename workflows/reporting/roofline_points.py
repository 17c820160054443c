"""What a roofline of a run shows: where each stage and the run lie, where their ceilings do, and the other ceilings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.ceilings.gpu import GPU_CEILINGS
from roofline.stencil import finder_operations
from workflows import run_figures
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import ACCENT, STAGES

THE_RUN = "the run"


@dataclass(frozen=True)
class Point:
    """A stage, or the run.

    Args:
        name: The stage's, or ``the run``.
        intensity: Operations of the finder for each byte that it moves.
        rate: Operations of the finder a second, of a worker that is in it (of the run: of a worker, all in all).
        share: How much of its ceiling was reached, as the table of stages has it; None without a ceiling.
        ceiling: What its ceiling is, in words.
        limited_by: The ceiling's name.
        is_level: Whether its ceiling is one of operations, which do not depend on the bytes.
    """

    name: str
    intensity: float
    rate: float
    share: float | None
    ceiling: str
    limited_by: str = ""
    is_level: bool = False

    @property
    def ceiling_rate(self) -> float | None:
        """Operations of the finder a second at its ceiling."""
        return self.rate / self.share if self.share else None

    @property
    def colour(self) -> str:
        """In which it is drawn, as in all pictures."""
        return STAGES.get(self.name, ACCENT)


@dataclass(frozen=True)
class Line:
    """A ceiling.

    Args:
        name: The ceiling's.
        rate: What a worker gets of it (of a GPU's: one GPU), B/s or op/s.
        is_level: Whether it is one of operations.
    """

    name: str
    rate: float
    is_level: bool

    @property
    def said(self) -> str:
        """Its name and rate, as a legend has them."""
        return f"{self.name} {self.rate / 1e9:,.2f} {'Gop/s' if self.is_level else 'GB/s'}"


def points(run: RunRecord) -> list[Point]:
    """The stages that moved bytes, and the run.

    Raises:
        AbsentError: The dataset does not say enough.
    """
    stages, account = run.require_stages(), run.account
    y, x = run.attrs["frame_shape"]
    operations = float(y * x * finder_operations(run.window)) * account["frames"]
    rates = {ceiling["name"]: ceiling for ceiling in run.ceilings}
    found = [_stage(name, stage, operations, rates) for name, stage in stages.items() if stage["nbytes"]]
    if not (decoded := run.decoded_bytes):
        raise AbsentError("The dataset does not say how many bytes of frames were decoded: process the archive again.")
    bound = account["bound_frames_a_second"]
    said = "no bound without all ceilings" if bound is None else f"its bound {run_figures.rate(bound)} frames/s"
    reached = operations / (account["workers"] * account["seconds"])
    return [*found, Point(THE_RUN, operations / decoded, reached, account["share_of_bound"], said)]


def lines(run: RunRecord, shown: Sequence[Point]) -> list[Line]:
    """The ceilings of the machine and of the run's storage that none of these is compared with: level ones, the others.

    Each kind from the highest on.
    """
    workers = run.account["workers"]
    wanted = {point.limited_by for point in shown if point.ceiling_rate is not None}
    # Of archives and datasets other than this run's there may be ceilings too.
    twins = {name.replace("read warm", "read cold") for name in wanted} | {
        name.replace("read cold", "read warm") for name in wanted
    }
    found = [
        Line(run_figures.short_name(ceiling["name"]), _share(ceiling, workers), ceiling["unit"] == "op/s")
        for ceiling in run.ceilings
        if ceiling["unit"] in ("B/s", "op/s")
        and ceiling["name"] not in wanted
        and (ceiling["name"] in twins or run_figures.short_name(ceiling["name"]) == ceiling["name"])
        and ("kernel" in run.stages or ceiling["name"] not in GPU_CEILINGS)
    ]
    return sorted(found, key=lambda line: (not line.is_level, -line.rate))


def _stage(name: str, stage: dict[str, Any], operations: float, rates: dict[str, Any]) -> Point:
    limited_by = str(stage["ceiling"])
    measured = rates.get(limited_by)
    is_level = measured is not None and measured["unit"] == "op/s"
    most = stage["ceiling_bytes_a_second"]
    if most is None or stage["share_of_ceiling"] is None:
        ceiling = "its ceiling not measured"
    else:
        # Of what is moved, or computed, for each byte that the stage is counted by.
        rate = most * (operations if is_level else _moved(stage)) / stage["nbytes"]
        short = f"{run_figures.short_name(limited_by)} ".removeprefix(f"{name} ").strip()
        ceiling = Line(short, rate, is_level).said.strip()
    return Point(
        name,
        operations / _moved(stage),
        operations / stage["busy_seconds"],
        stage["share_of_ceiling"] if most is not None else None,
        ceiling,
        limited_by,
        is_level,
    )


def _moved(stage: dict[str, Any]) -> float:
    """Bytes that the stage moved, as its ceiling counts them; those of its frames where that was not kept."""
    moved = stage.get("bytes_moved")
    if isinstance(moved, int | float) and math.isfinite(moved) and moved > 0:
        return float(moved)
    return float(stage["nbytes"])


def _share(ceiling: dict[str, Any], workers: int) -> float:
    """What each worker gets, as :meth:`pipeline.ceilings.MeasuredCeiling.share`; of a GPU's, the whole GPU."""
    if ceiling["name"] in GPU_CEILINGS:
        return float(ceiling["one_core"]["median"])
    one = float(ceiling["one_core"]["median"])
    everything = ceiling["all_cores"]
    together = one * ceiling["cores"] if everything is None else float(everything["median"])
    return min(one, together / max(workers, 1))
