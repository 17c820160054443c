"""Pixels that misbehave in dark frames: dead, cold, hot, noisy and flickering ones.

Each pixel is held against its neighbourhood, a tile of the detector, by four figures made from exact sums. The first
three are over its values within a range about its median, five noise widths or so as a few darks show them (the first
range of `finder.dark_clip`), so that a photon or a cosmic among the darks makes no bad pixel:

    mean         ADU
    noise        standard deviation, ADU
    persistence  ρ = 1 − Σ(Xᵢ₊₁ − Xᵢ)² / (2 · pairs · noise²), the correlation of darks that follow each other: 0 for
                 noise, towards 1 for a pixel that keeps to one of two levels for some frames (random telegraph noise)
    far          how many of its values lie beyond the range, or are in another gain

One of the first three stands out where it lies more than so many widths from the tile's median, the width being 1.4826
times the median distance from it, or what so few darks scatter by chance if that is more (σ/√N, σ/√(2N), 1/√N). Far
values are too many if they exceed the tile's median m by 1 % of the darks, at least 3, and 5·√m beside; of
fewer than 64 darks they are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.dark_clip import SAMPLE, first_range
from finder.dark_quality import mean_and_noise
from finder.dark_sums import DarkSums
from finder.frames import checked_frames
from finder.gain_bits import in_another_gain
from finder.pixel_bits import PixelBits

FEWEST_DARKS = 10
KINDS = ("dead", "cold", "hot", "noisy", "flickering")
BITS = {
    "dead": PixelBits.DEAD,
    "cold": PixelBits.UNDER_RESPONDING,
    "hot": PixelBits.OVER_RESPONDING,
    "noisy": PixelBits.NOISY,
    "flickering": PixelBits.NOISY,
}
"""NeXus has no bit of its own for a pixel that flickers: it is a noisy one."""

_ROBUST = 1.4826
_FEWEST_NEIGHBOURS = 50
_CLIP = Fraction(5)
_FEWEST_FAR, _FAR_BY_CHANCE = 3, 5.0

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class BadPixelThresholds:
    """How far a pixel has to stand out from its neighbourhood, in robust widths.

    Args:
        hot: of the mean, upwards (hot) or downwards (cold).
        noisy: of the noise, upwards.
        flickering: of the persistence, upwards.
        far: share of the darks in which a pixel may be far off more often than its neighbours.
        tile: (rows, columns) of a neighbourhood.

    Raises:
        ValueError: a threshold is not above 0, or a tile has no pixel.
    """

    hot: float = 10.0
    noisy: float = 10.0
    flickering: float = 7.0
    far: float = 0.01
    tile: tuple[int, int] = (64, 64)

    def __post_init__(self) -> None:
        for name in ("hot", "noisy", "flickering", "far"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"the threshold of {name} pixels is {getattr(self, name)}: it must be above 0")
        if min(self.tile) < 1:
            raise ValueError(f"a neighbourhood of {self.tile[0]}x{self.tile[1]} pixels has none")


@dataclass(frozen=True, eq=False)
class DarkFigures:
    """What dark frames say of each pixel, each (y, x), float64 but for `far`.

    Attributes:
        n_darks: dark frames.
        mean: ADU; 0 where no value counts.
        noise: ADU; 0 where all values that count are the same, or there are fewer than two.
        persistence: ρ, −1 to 1; 0 where it is not known.
        far: int64, values that do not count.
    """

    n_darks: int
    mean: Float64
    noise: Float64
    persistence: Float64
    far: NDArray[np.int64]

    @classmethod
    def of(cls, sample: ArrayLike, blocks: Iterable[ArrayLike], gain_bits: int = 0) -> DarkFigures:
        """Look at dark frames.

        Args:
            sample: some of them, evenly spread (dark_frame, y, x): the range of values that count is made from these.
            blocks: all of them, (dark_frame, y, x) each, in the order in which they were taken.
            gain_bits: bits above the value in a 16-bit word: values in another gain don't count.

        Raises:
            TypeError, ValueError: as `DarkSums.of`; or there are fewer than 10 darks.
        """
        some = checked_frames(sample, what="dark frames")
        within = first_range(some, ~in_another_gain(some, gain_bits), _CLIP)
        sums = DarkSums.of(some[:0], gain_bits=gain_bits, within=within)
        steps, pairs = np.zeros(sums.shape, np.int64), np.zeros(sums.shape, np.int64)
        last: tuple[NDArray[np.int64], Bool] | None = None
        for block in blocks:
            frames = checked_frames(block, sums.shape, what="dark frames")
            sums = sums + DarkSums.of(frames, gain_bits=gain_bits, within=within)
            for frame in frames:
                values, counts = frame.astype(np.int64), within.holds(frame) & ~in_another_gain(frame, gain_bits)
                if last is not None:
                    both = counts & last[1]
                    steps += np.where(both, values - last[0], 0) ** 2
                    pairs += both
                last = values, counts
        if sums.n_frames < FEWEST_DARKS:
            raise ValueError(
                f"{sums.n_frames} dark frames say too little of single pixels: it takes at least {FEWEST_DARKS}"
            )
        mean, noise = mean_and_noise(sums)
        known = (noise > 0) & (pairs > 0)
        expected = np.where(known, 2.0 * pairs * noise**2, 1.0)
        persistence = np.where(known, 1 - steps / expected, 0.0)
        return cls(sums.n_frames, mean, noise, persistence, sums.n_frames - sums.n_values)


def bad_pixels(
    figures: DarkFigures, thresholds: BadPixelThresholds | None = None, masked: Bool | None = None
) -> dict[str, Bool]:
    """The pixels that stand out, (y, x) for each of `KINDS`.

    Args:
        figures: what the darks say.
        thresholds: how far is too far; None: as `BadPixelThresholds` has it.
        masked: (y, x), True where a pixel is known to be bad: it is neither judged nor a neighbour.
    """
    wanted = thresholds or BadPixelThresholds()
    known = np.zeros(figures.noise.shape, bool) if masked is None else masked
    # A pixel that stays where it is but for some frames is not dead.
    dead = (figures.noise == 0) & ((figures.far == 0) | (figures.far > figures.n_darks - 2)) & ~known
    alive = ~dead & ~known
    n = float(figures.n_darks)

    def widths(values: Float64, chance: Callable[[Float64], float]) -> Float64:
        return _widths_from_neighbours(values, figures.noise, alive, wanted.tile, chance)

    off = widths(figures.mean, lambda noise: float(np.median(noise)) / n**0.5)
    louder = widths(figures.noise, lambda noise: float(np.median(noise)) / (2 * n) ** 0.5)
    persistent = widths(figures.persistence, lambda noise: 1 / n**0.5)
    # Of a few darks the range itself is uncertain.
    far = figures.far.astype(np.float64) if figures.n_darks >= SAMPLE else np.zeros(figures.far.shape)
    usual = far - _widths_from_neighbours(far, figures.noise, alive, wanted.tile, None)
    too_far = alive & (far - usual > np.maximum(wanted.far * n, _FEWEST_FAR) + _FAR_BY_CHANCE * np.sqrt(usual))
    return {
        "dead": dead,
        "cold": off < -wanted.hot,
        "hot": off > wanted.hot,
        "noisy": (louder > wanted.noisy) | too_far,
        "flickering": persistent > wanted.flickering,
    }


def mask_of(kinds: dict[str, Bool]) -> NDArray[np.uint32]:
    """The NeXus bits of what `bad_pixels` found, (y, x)."""
    mask = np.zeros(kinds["dead"].shape, np.uint32)
    for kind, there in kinds.items():
        mask[there] |= np.uint32(BITS[kind])
    return mask


def _widths_from_neighbours(
    values: Float64, noise: Float64, alive: Bool, tile: tuple[int, int], chance: Callable[[Float64], float] | None
) -> Float64:
    """How far each value lies from the median of its tile, in robust widths; 0 where a pixel is not alive.

    Without a width by chance, the distance itself.
    """
    result = np.zeros(values.shape)
    if not alive.any():
        return result
    everywhere = _median_and_width(values[alive], noise[alive], chance)
    rows, columns = tile
    for top in range(0, values.shape[0], rows):
        for left in range(0, values.shape[1], columns):
            part = np.s_[top : top + rows, left : left + columns]
            some = alive[part]
            # A corner of a few pixels does not make a neighbourhood.
            enough = int(some.sum()) >= _FEWEST_NEIGHBOURS
            middle, width = _median_and_width(values[part][some], noise[part][some], chance) if enough else everywhere
            result[part] = np.where(some, (values[part] - middle) / width, 0)
    return result


def _median_and_width(
    values: Float64, noise: Float64, chance: Callable[[Float64], float] | None
) -> tuple[float, float]:
    middle = float(np.median(values))
    if chance is None:
        return middle, 1.0
    return middle, max(_ROBUST * float(np.median(np.abs(values - middle))), chance(noise))
