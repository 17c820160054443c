"""The roofline model: work that has to be done against ceilings on how fast it can be done.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52 (2009) 65, generalised to
any number of ceilings: arithmetic of several kinds, memories and links of several levels. Each ceiling sets a floor on
the time that the work takes; the highest floor binds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["compute", "memory"]


@dataclass(frozen=True)
class Ceiling:
    """The most that one resource does in a second.

    Args:
        name: The resource: ``"bf16"``, ``"HBM"``, ``"PCIe"``.
        kind: ``compute`` counts operations, ``memory`` bytes.
        rate: Operations a second, or bytes a second.

    Raises:
        ValueError: The rate is not a positive number.
    """

    name: str
    kind: Kind
    rate: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"the rate of the ceiling {self.name!r} is {self.rate}: it has to be a positive number")


@dataclass(frozen=True)
class Floor:
    """The least time that some work takes under one ceiling, in s."""

    ceiling: Ceiling
    seconds: float


def floors(work: Mapping[str, float], ceilings: tuple[Ceiling, ...]) -> tuple[Floor, ...]:
    """The time floor that each ceiling sets: what crosses it, divided by its rate.

    Args:
        work: Operations or bytes for each ceiling's name; a ceiling that is not named is not used.
        ceilings: The machine.

    Raises:
        ValueError: Work for a ceiling that the machine does not have.
    """
    names = {ceiling.name for ceiling in ceilings}
    if unknown := sorted(set(work) - names):
        raise ValueError(f"there is work for {', '.join(unknown)}, and the machine has {', '.join(sorted(names))}")
    return tuple(Floor(ceiling, work[ceiling.name] / ceiling.rate) for ceiling in ceilings if ceiling.name in work)


def binding(work: Mapping[str, float], ceilings: tuple[Ceiling, ...]) -> Floor:
    """The highest of the floors: a run takes at least so long. Of equal ones, a compute ceiling binds.

    Raises:
        ValueError: No work at all, or work for a ceiling that the machine does not have.
    """
    all_floors = floors(work, ceilings)
    if not all_floors:
        raise ValueError("there is no work, so nothing binds")
    exact = {floor: Fraction(work[floor.ceiling.name]) / Fraction(floor.ceiling.rate) for floor in all_floors}
    return max(all_floors, key=lambda floor: (exact[floor], floor.ceiling.kind == "compute"))


def intensity(operations: float, nbytes: float) -> float:
    """Arithmetic intensity: operations for each byte that crosses, in FLOP/B.

    Raises:
        ValueError: No bytes cross.
    """
    if nbytes <= 0:
        raise ValueError(f"the intensity of {operations} operations on {nbytes} bytes is not a number")
    return operations / nbytes


def ridge_point(peak: float, bandwidth: float) -> float:
    """The intensity from which on arithmetic binds, in FLOP/B: peak (FLOP/s) over bandwidth (B/s)."""
    return peak / bandwidth


def attainable(peak: float, bandwidth: float, intensity: float) -> float:
    """The most FLOP/s at an intensity (FLOP/B): the lower of the peak and bandwidth · intensity."""
    return min(peak, bandwidth * intensity)


def bound(operations: float, nbytes: float, peak: float, bandwidth: float) -> Kind:
    """What binds: ``memory`` below the ridge point, ``compute`` at or above it.

    Compared as exact fractions, so that a tie is one: it is compute-bound.
    """
    at_or_above = Fraction(operations) * Fraction(bandwidth) >= Fraction(nbytes) * Fraction(peak)
    return "compute" if at_or_above else "memory"
