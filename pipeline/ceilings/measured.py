"""What was measured: a rate with its spread, or the reason why there is none."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

UNITS = ("B/s", "op/s", "fault/s")
PAGE_FAULTS = "page faults"
"""The ceiling whose rate is that of first touches of memory."""
# A second: of bytes, operations or faults.
_LEAST, _MOST = 1e-2, 1e24


@dataclass(frozen=True)
class Spread:
    """Repeats of one measurement.

    Args:
        median: The middle one.
        lowest: The first quartile.
        highest: The third quartile.

    Raises:
        ValueError: They are not rates that anything can have.
    """

    median: float
    lowest: float
    highest: float

    def __post_init__(self) -> None:
        for rate in (self.median, self.lowest, self.highest):
            if type(rate) not in (int, float) or not _LEAST <= rate <= _MOST:
                raise ValueError(f"a measured rate is {rate!r}: it has to be a number from {_LEAST:g} to {_MOST:g}")

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The spread of at least two values."""
        lowest, median, highest = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, lowest, highest)

    @property
    def half_width(self) -> float:
        """Half the distance of the quartiles, over the median."""
        return (self.highest - self.lowest) / (2 * self.median)


@dataclass(frozen=True)
class MeasuredCeiling:
    """One ceiling.

    Args:
        name: What it limits: ``"decode"``, ``"memory copy"``.
        what: On what exactly it was measured.
        unit: ``"B/s"``, ``"op/s"``, or ``"fault/s"``.
        one_core: One core at work, the others idle; None if that was not measured.
        all_cores: All of them at work, added up; None if that was not measured.
        cores: How many these are.
        missing: Why it was not measured; None if it was.
    """

    name: str
    what: str
    unit: str
    one_core: Spread | None = None
    all_cores: Spread | None = None
    cores: int = 1
    missing: str | None = None

    @property
    def rate(self) -> float | None:
        """The machine's rate: of all cores, or of one if only that is known; None if it was not measured."""
        spread = self.all_cores or self.one_core
        return None if spread is None else spread.median

    def share(self, workers: int) -> float | None:
        """What each of so many workers gets while all are at work; None if it was not measured.

        No more than one core does alone, and together no more than all cores do.
        """
        if self.one_core is None:
            return None
        one = self.one_core.median
        together = one * self.cores if self.all_cores is None else self.all_cores.median
        return min(one, together / max(workers, 1))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `as_json` gave.

        Raises:
            ValueError: It is something else; a KeyError or TypeError likewise.
        """
        spreads = {name: values[name] and Spread(**values[name]) for name in ("one_core", "all_cores")}
        ceiling = cls(**(values | spreads))
        texts = (ceiling.name, ceiling.what, ceiling.missing or "")
        is_known = ceiling.unit in UNITS and type(ceiling.cores) is int and ceiling.cores >= 1
        if not is_known or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{values} is no ceiling")
        return ceiling

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Ceilings:
    """All ceilings of a machine that are known.

    Args:
        machine: Hardware, drivers and versions that they hold for.
        measured: When, in ISO 8601, UTC.
        ceilings: By name.
    """

    machine: dict[str, str]
    measured: str
    ceilings: dict[str, MeasuredCeiling] = field(default_factory=dict)

    def __getitem__(self, name: str) -> MeasuredCeiling:
        return self.ceilings.get(name) or MeasuredCeiling(name, "", "", missing="not measured")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `as_json` gave.

        Raises:
            ValueError: It is something else; a KeyError or TypeError likewise.
        """
        ceilings = [MeasuredCeiling.from_json(ceiling) for ceiling in values["ceilings"]]
        return cls(values["machine"], values["measured"], {ceiling.name: ceiling for ceiling in ceilings})

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "machine": self.machine,
            "measured": self.measured,
            "ceilings": [ceiling.as_json() for ceiling in self.ceilings.values()],
        }
