"""What ``photonflow benchmark`` wrote, read and checked as a whole before anything is drawn of it.

Of it are read ``ladder``, a list of rungs with ``idea``, ``us_per_frame``, ``quartiles``, ``frames``, ``clusters`` and
``identical``, and ``rows``, of which races have ``name``, ``rival``, ``clusters`` and ``rival_clusters``. A rung may
have a ``spectrum`` (counts) with the result's ``spectrum_edges`` in ADU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

# A benchmark has a dozen rungs and twice as many rows; pictures and slides are made for so many.
_MOST = 100
_LARGEST = 1e15
_GIVE = "give what photonflow benchmark wrote"


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
    spectrum: tuple[int, ...] = ()

    @property
    def is_reference(self) -> bool:
        """Whether it is the plain one, whose clusters all others have to find."""
        return "reference" in self.idea.lower()

    @property
    def decodes(self) -> bool:
        """Whether it takes its frames from an archive, and not from memory."""
        return "archive" in self.idea.lower() or "decode" in self.idea.lower()


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
        return 1e6 * (self.clusters - self.reference) / max(self.reference, 1)


@dataclass(frozen=True)
class BenchResults:
    """Results of a benchmark.

    Args:
        rungs: The ladder as it was climbed.
        races: Each rival's count of clusters against ours.
        spectrum_edges: Of the bins of spectra, ADU; nothing without them.
        machine: What it was measured on, in words.
        day: When, as 2026-01-31.
        shape: Rows and columns of the ladder's frames; None where they are not told.
        is_tiny: Whether it was made to show that all works: its times mean nothing.
    """

    rungs: tuple[Rung, ...] = ()
    races: tuple[Comparison, ...] = ()
    spectrum_edges: tuple[float, ...] = ()
    machine: str = ""
    day: str = ""
    shape: tuple[int, int] | None = None
    is_tiny: bool = False

    @property
    def conditions(self) -> str:
        """On what the ladder was measured: what its times can be compared with."""
        size = "of a size that its results do not tell" if self.shape is None else "of {}×{} pixels".format(*self.shape)
        counts = sorted({rung.frames for rung in self.rungs})
        frames = f"{counts[0]:,} to {counts[-1]:,} frames" if len(counts) > 1 else f"{sum(counts):,} frames"
        where = f" on {self.machine}" * bool(self.machine) + f", {self.day}" * bool(self.day)
        return f"{frames} {size}{where}"


def read_bench(path: str) -> BenchResults:
    """Read a file of results.

    Raises:
        ValueError: It holds something else; the sentence says what can't be read.
        OSError: It can't be read at all.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): {_GIVE}") from error
    if not isinstance(values, dict) or not {"ladder", "rows"} & values.keys():
        raise ValueError(f"{path} holds neither a ladder nor rows: {_GIVE}")
    try:
        edges = tuple(map(_number, _listed(values, "spectrum_edges")))
        rungs = tuple(_rung(rung, len(edges) - 1) for rung in _listed(values, "ladder"))
        rows = [row for row in _listed(values, "rows") if _is_race(row)]
        races = tuple(_race(row) for row in rows)
        if any(low >= high for low, high in pairwise(edges)):
            raise ValueError("spectrum_edges don't grow")
    except (KeyError, TypeError, ValueError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} can't be read as results of a benchmark ({why}): {_GIVE}") from error
    day, is_tiny = str(values.get("measured") or "")[:10], values.get("tiny") is True
    return BenchResults(rungs, races, edges, _machine(values.get("machine")), day, _shape(values), is_tiny)


def _shape(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """Of the frames that the ladder is timed on: the first of those that the benchmark names."""
    try:
        y, x = values["sizes"]["shapes"][0]
        return _count(y), _count(x)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _listed(values: Mapping[str, Any], name: str) -> list[Any]:
    found = values.get(name) or []
    if not isinstance(found, list):
        raise TypeError(f"its {name} is no list")
    if len(found) > _MOST and name != "spectrum_edges":
        raise ValueError(f"its {name} is {len(found):,} long, and that of a benchmark {_MOST} at most")
    return found


def _rung(values: Any, bins: int) -> Rung:
    if not isinstance(values, dict):
        raise TypeError("a rung of its ladder is no object")
    time = _number(values["us_per_frame"])
    lowest, highest = map(_number, values.get("quartiles") or (time, time))
    rung = Rung(
        idea=str(values["idea"]),
        microseconds=time,
        lowest=lowest,
        highest=highest,
        frames=_count(values["frames"]),
        clusters=_count(values["clusters"]),
        identical=values["identical"] is True,
        spectrum=tuple(map(_count, values.get("spectrum") or ())),
    )
    if min(time, lowest, highest, rung.frames) <= 0:
        raise ValueError(f"the rung {rung.idea!r} took no time, or no frames")
    if rung.spectrum and len(rung.spectrum) != bins:
        raise ValueError(f"the rung {rung.idea!r} has a spectrum of other bins than spectrum_edges")
    return rung


def _is_race(values: Any) -> bool:
    """Whether a row is a race with a rival that counted the clusters of the same frames."""
    if not isinstance(values, dict):
        raise TypeError("one of its rows is no object")
    # A whole run goes through many times the rival's frames.
    return bool(
        values.get("is_race")
        and values.get("rival_clusters")
        and _count(values["clusters"]) < 2 * _count(values["rival_clusters"])
    )


def _race(values: Mapping[str, Any]) -> Comparison:
    name = f"{values['rival']}: {values['name']}"
    return Comparison(name, _count(values["rival_clusters"]), _count(values["clusters"]))


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{value!r} is not a number that can be measured")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r} is not a count")
    return value


def _machine(values: Any) -> str:
    if isinstance(values, dict):
        return f"{values.get('processor', 'a machine')}, {values.get('cores', '?')} cores"
    return str(values or "")
