"""The contests: what is timed against what, and what is to be reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from benchmarks.race.ours import Positions, one_core, positions, threads
from benchmarks.race.peer import Peer
from benchmarks.race.subjects import EIGHT_BITS, MOENCH, Subject, a_mask, cast, simulated
from benchmarks.race.timing import Lap, Laps, race
from finder import FinderParameters, open_finder

Noise = Literal["running", "trained"]
# Detectors in the field, and widths that no vector divides.
SHAPES = ((400, 400), (399, 397), (400, 401), (512, 1024), (2164, 2068), (4148, 4362))
MEGAPIXEL = 1e6
FEWEST_FRAMES = 8


@dataclass(frozen=True)
class Sizes:
    """How much is timed.

    Attributes:
        frames: frames of 400×400 for 3×3; larger windows get fewer.
        dark: darks that both train on.
        pixels: about so many of the other shapes, in at least eight frames.
        repeats: timed laps.
        shapes: (y, x) of the frames of the contest of shapes, the first the one that the others are compared with.
    """

    frames: int = 300
    dark: int = 1000
    pixels: int = 48_000_000
    repeats: int = 5
    shapes: tuple[tuple[int, int], ...] = SHAPES


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: what was timed.
        unit: of the times: µs a frame, µs a megapixel.
        per: what a lap's seconds are divided by to get there, times 1e6.
        ours: photonflow's laps.
        rival: what they are compared with: the peer, or photonflow in the plain case.
        against: its laps; None where there is nothing to compare with.
        goal: the ratio to reach: against/ours at least, for the peer; ours/against at most, for photonflow.
        differing: clusters that only one of the two found; None where they are not compared.
    """

    name: str
    unit: str
    per: float
    ours: Laps
    rival: str
    against: Laps | None
    goal: float | None = None
    differing: int | None = None

    @property
    def time(self) -> float:
        """The median of ours, in the unit."""
        return self.ours.median / self.per

    @property
    def ratio(self) -> float | None:
        """How much faster than the peer; how much slower than the plain case. Of medians, in the unit."""
        if self.against is None:
            return None
        theirs = self.against.median / self.per_against
        return theirs / self.time if self.is_race else self.time / theirs

    @property
    def core_ratio(self) -> float | None:
        """The same of processor times."""
        if self.against is None or not (self.ours.median_core and self.against.median_core):
            return None
        ours, theirs = self.ours.median_core / self.per, self.against.median_core / self.per_against
        return theirs / ours if self.is_race else ours / theirs

    @property
    def is_race(self) -> bool:
        """Whether it is against the peer."""
        return self.rival.startswith("aare")

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio >= self.goal if self.is_race else self.ratio <= self.goal

    per_against: float = math.nan


def row(
    name: str,
    n: float,
    ours: Laps,
    rival: str,
    against: Laps | None,
    goal: float | None = None,
    differing: int | None = None,
    unit: str = "µs/frame",
    n_against: float | None = None,
) -> Row:
    """A row whose laps were of `n` frames (or megapixels), and its rival's of `n_against`, if that differs."""
    return Row(name, unit, n / 1e6, ours, rival, against, goal, differing, (n_against or n) / 1e6)


def n_differing(ours: Positions, theirs: Positions) -> int:
    """Clusters that only one of the two found; both (cluster, 3): frame, y, x."""
    sets = [{tuple(position) for position in found.tolist()} for found in (ours, theirs)]
    return len(sets[0] ^ sets[1])


def against_the_peer(subject: Subject, peer: Peer, sizes: Sizes) -> Iterator[Row]:
    """3×3, 5×5 and 9×9 on one core, and 3×3 on two."""
    frames = np.ascontiguousarray(subject.load())
    goals: dict[tuple[int, Noise], float | None] = {
        (3, "running"): 15, (3, "trained"): 17, (5, "running"): 24, (5, "trained"): 24, (9, "running"): 45,
        (9, "trained"): 45,
    }  # fmt: skip
    version = f"aare {peer.versions['aare']}"
    for side, share in ((3, 1.0), (5, 0.4), (9, 0.15)):
        window, n = (side, side), max(4, round(share * len(frames)))
        noises: tuple[Noise, ...] = ("running", "trained")
        named = {noise: FinderParameters(cluster_size=window, noise=noise) for noise in noises}
        laps = race(
            {str(noise): one_core(frames[:n], subject.pedestal, parameters) for noise, parameters in named.items()}
            | {version: lambda window=window, n=n: peer.run(subject, window, n)},
            sizes.repeats,
        )
        theirs = peer.positions(subject, window, n)
        for noise, parameters in named.items():
            finder = open_finder("cpu", parameters, frames.shape[1:])
            differing = n_differing(positions(finder, frames[:n], subject.pedestal), theirs)
            goal = goals[side, noise]
            yield row(f"{side}×{side} {noise}, one core", n, laps[noise], version, laps[version], goal, differing)
    finder = open_finder("cpu", FinderParameters(), frames.shape[1:])
    laps = race(
        {
            "ours": threads(frames, finder, subject.pedestal, 2),
            version: lambda: peer.run(subject, (3, 3), len(frames), threads=2),
        },
        sizes.repeats,
    )
    yield row("3×3 running, two cores", len(frames), laps["ours"], f"{version} MT", laps[version], 30)


def against_the_plain_case(subject: Subject, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Masks, other integer types, rectangular windows: they are to cost no more than 1.3 times as much."""
    frames, plain = np.ascontiguousarray(subject.load()), FinderParameters()

    def timed(name: str, n: int, laps: tuple[Laps, Laps], rival: str) -> Row:
        return row(name, n, laps[0], rival, laps[1], 1.3)

    def two(ours: Callable[[], Lap], against: Callable[[], Lap]) -> tuple[Laps, Laps]:
        laps = race({"ours": ours, "against": against}, sizes.repeats)
        return laps["ours"], laps["against"]

    mask = a_mask(subject.pedestal.shape)
    masked = one_core(frames, subject.pedestal, plain, mask)
    yield timed("3×3 with a mask", len(frames), two(masked, one_core(frames, subject.pedestal, plain)), "no mask")
    wide = np.ascontiguousarray(cast(folder, "int32", subject, np.int32).load())
    int32 = one_core(wide, subject.pedestal, plain)
    yield timed("3×3, int32 frames", len(wide), two(int32, one_core(frames, subject.pedestal, plain)), "uint16")
    del wide
    eight = simulated(folder, "uint8", replace(EIGHT_BITS, shape=subject.pedestal.shape), len(frames))
    values = np.ascontiguousarray(eight.load())
    uint8 = one_core(values.astype(np.uint8), eight.pedestal, plain)
    yield timed("3×3, uint8 frames", len(frames), two(uint8, one_core(values, eight.pedestal, plain)), "uint16")
    n = max(4, round(0.4 * len(frames)))
    for window in ((3, 5), (5, 3), (3, 9), (9, 3)):
        side = max(window)
        oblong = one_core(frames[:n], subject.pedestal, FinderParameters(cluster_size=window))
        square = one_core(frames[:n], subject.pedestal, FinderParameters(cluster_size=(side, side)))
        yield timed(f"{window[0]}×{window[1]}", n, two(oblong, square), f"{side}×{side}")


def photon_rates(folder: Path, sizes: Sizes) -> Iterator[Row]:
    """No photons, a tenth of the usual rate, the usual one, and ten times as many: the cost follows the clusters."""
    n = max(4, sizes.frames // 4)
    shape = sizes.shapes[0]
    usual = replace(MOENCH, shape=shape).mean_photons
    work: dict[str, Callable[[], Lap]] = {}
    for name, rate in (("usual", 1.0), ("no", 0.0), ("a tenth of the usual", 0.1), ("ten times the usual", 10.0)):
        detector = replace(MOENCH, shape=shape, photons_per_frame=rate * usual)
        subject = simulated(folder, "rate", detector, n)
        work[name] = one_core(np.array(subject.load()), subject.pedestal, FinderParameters())
    laps = race(work, sizes.repeats)
    for name in list(work)[1:]:
        yield row(f"3×3, {name} photons", n, laps[name], "usual rate", laps["usual"])


def shapes(folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Other shapes, a megapixel, against the first: they are to cost no more than 1.3 times as much."""
    work: dict[tuple[int, int], Callable[[], Lap]] = {}
    megapixels: dict[tuple[int, int], float] = {}
    for shape in sizes.shapes:
        # Of few frames much would go into what a chain does once: touching memory for the first time.
        n = max(FEWEST_FRAMES, round(sizes.pixels / (shape[0] * shape[1])))
        # The same few frames again and again: drawing them takes longer than searching them.
        few = simulated(folder, "shape", replace(MOENCH, shape=shape), min(n, 4))
        frames: npt.NDArray[Any] = np.resize(few.load(), (n, *shape))
        megapixels[shape] = n * shape[0] * shape[1] / MEGAPIXEL
        work[shape] = one_core(frames, few.pedestal, FinderParameters())
    laps = race({f"{y}×{x}": run for (y, x), run in work.items()}, sizes.repeats)
    first = f"{sizes.shapes[0][0]}×{sizes.shapes[0][1]}"
    for y, x in sizes.shapes[1:]:
        yield row(
            f"3×3, {y}×{x}", megapixels[y, x], laps[f"{y}×{x}"], first, laps[first], 1.3, unit="µs/Mpx",
            n_against=megapixels[sizes.shapes[0]],
        )  # fmt: skip
