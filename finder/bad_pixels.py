"""Pixels that misbehave in dark frames: dead, cold, hot, noisy and flickering ones.

Each pixel is held against its neighbourhood, a tile of the detector, by three figures made from exact sums:

    mean         of the darks, ADU
    noise        their standard deviation, ADU
    persistence  ρ = 1 − Σ(Xᵢ₊₁ − Xᵢ)² / (2 · pairs · noise²), the correlation of darks that follow each other: 0 for
                 noise, towards 1 for a pixel that keeps to one of two levels for some frames (random telegraph noise)

A figure stands out where it lies more than so many widths from the tile's median, the width being 1.4826 times the
median distance from it, or what so few darks scatter by chance if that is more (σ/√N, σ/√(2N), 1/√N).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
# A pixel that leaves gain 0 in the dark more often than this is noisy too.
_SWITCHES_OFTEN = 0.01

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class BadPixelThresholds:
    """How far a pixel has to stand out from its neighbourhood, in robust widths.

    Args:
        hot: of the mean, upwards (hot) or downwards (cold).
        noisy: of the noise, upwards.
        flickering: of the persistence, upwards.
        tile: (rows, columns) of a neighbourhood.

    Raises:
        ValueError: a threshold is not above 0, or a tile has no pixel.
    """

    hot: float = 10.0
    noisy: float = 10.0
    flickering: float = 7.0
    tile: tuple[int, int] = (64, 64)

    def __post_init__(self) -> None:
        for name in ("hot", "noisy", "flickering"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"the threshold of {name} pixels is {getattr(self, name)}: it must be above 0")
        if min(self.tile) < 1:
            raise ValueError(f"a neighbourhood of {self.tile[0]}x{self.tile[1]} pixels has none")


@dataclass(frozen=True, eq=False)
class DarkFigures:
    """What dark frames say of each pixel, each (y, x); of a pixel with fewer than two values mean and noise are 0.

    Attributes:
        n_darks: dark frames.
        n_values: int64, those of them that count: in gain 0.
        mean, noise: ADU.
        persistence: ρ, −1 to 1; 0 where it is not known.
    """

    n_darks: int
    n_values: NDArray[np.int64]
    mean: Float64
    noise: Float64
    persistence: Float64

    @classmethod
    def of(cls, blocks: Iterable[ArrayLike], gain_bits: int = 0) -> DarkFigures:
        """Look at dark frames.

        Args:
            blocks: (dark_frame, y, x), in the order in which they were taken.
            gain_bits: bits above the value in a 16-bit word: values in another gain don't count.

        Raises:
            TypeError, ValueError: as `DarkSums.of`; or there are fewer than 10 darks.
        """
        sums: DarkSums | None = None
        steps = pairs = last = None
        for block in blocks:
            frames = checked_frames(block, what="dark frames")
            here = DarkSums.of(frames, gain_bits=gain_bits)
            sums = here if sums is None else sums + here
            if steps is None or pairs is None:
                steps, pairs = np.zeros(sums.shape, np.int64), np.zeros(sums.shape, np.int64)
            for frame in frames:
                values, counts = frame.astype(np.int64), ~in_another_gain(frame, gain_bits)
                if last is not None:
                    both = counts & last[1]
                    steps += np.where(both, values - last[0], 0) ** 2
                    pairs += both
                last = values, counts
        n_darks = 0 if sums is None else sums.n_frames
        if sums is None or steps is None or pairs is None or n_darks < FEWEST_DARKS:
            raise ValueError(f"{n_darks} dark frames say too little of single pixels: it takes at least {FEWEST_DARKS}")
        mean, noise = mean_and_noise(sums)
        known = (noise > 0) & (pairs > 0)
        expected = np.where(known, 2.0 * pairs * noise**2, 1.0)
        persistence = np.where(known, 1 - steps / expected, 0.0)
        return cls(n_darks, sums.n_values, mean, noise, persistence)


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
    dead = (figures.noise == 0) & ~known
    alive = ~dead & ~known
    n = float(figures.n_darks)

    def widths(values: Float64, chance: Callable[[Float64], float]) -> Float64:
        return _widths_from_neighbours(values, figures.noise, alive, wanted.tile, chance)

    off = widths(figures.mean, lambda noise: float(np.median(noise)) / n**0.5)
    louder = widths(figures.noise, lambda noise: float(np.median(noise)) / (2 * n) ** 0.5)
    persistent = widths(figures.persistence, lambda noise: 1 / n**0.5)
    switching = alive & (figures.n_darks - figures.n_values > _SWITCHES_OFTEN * figures.n_darks)
    return {
        "dead": dead,
        "cold": off < -wanted.hot,
        "hot": off > wanted.hot,
        "noisy": (louder > wanted.noisy) | switching,
        "flickering": persistent > wanted.flickering,
    }


def mask_of(kinds: dict[str, Bool]) -> NDArray[np.uint32]:
    """The NeXus bits of what `bad_pixels` found, (y, x)."""
    mask = np.zeros(kinds["dead"].shape, np.uint32)
    for kind, there in kinds.items():
        mask[there] |= np.uint32(BITS[kind])
    return mask


def _widths_from_neighbours(
    values: Float64, noise: Float64, alive: Bool, tile: tuple[int, int], chance: Callable[[Float64], float]
) -> Float64:
    """How far each value lies from the median of its tile, in robust widths; 0 where a pixel is not alive."""
    result = np.zeros(values.shape)
    if not alive.any():
        return result
    everywhere = _median_and_width(values[alive], chance(noise[alive]))
    rows, columns = tile
    for top in range(0, values.shape[0], rows):
        for left in range(0, values.shape[1], columns):
            part = np.s_[top : top + rows, left : left + columns]
            some = alive[part]
            # A corner of a few pixels does not make a neighbourhood.
            enough = int(some.sum()) >= _FEWEST_NEIGHBOURS
            middle, width = _median_and_width(values[part][some], chance(noise[part][some])) if enough else everywhere
            result[part] = np.where(some, (values[part] - middle) / width, 0)
    return result


def _median_and_width(values: Float64, chance: float) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, max(_ROBUST * float(np.median(np.abs(values - middle))), chance)
