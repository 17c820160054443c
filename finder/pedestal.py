"""The pedestal: each pixel's mean and noise, as the state of a running estimate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.common_mode import CommonMode
from finder.dark_sums import LARGEST_N_FRAMES, DarkSums
from finder.frames import BLOCK_NBYTES
from finder.parameters import checked_n_samples

FEWEST_DARKS = 2
ENOUGH_DARKS = 100
LARGEST_MEAN = 2.0**33

Float32 = NDArray[np.float32]


class DarkFrames(Protocol):
    """Anything that gives dark frames block by block: a NumPy array, a Zarr array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(dark_frame, y, x)."""

    def __getitem__(self, key: slice, /) -> Any:
        """Frames of a range."""


@dataclass(frozen=True, eq=False)
class Pedestal:
    """Each pixel's pedestal as the finder keeps it, (y, x).

    With Y = X − x0, a pixel's mean has moved by s1 / n_samples from x0, and its mean square is s2 / n_samples.
    Accumulating Y and not X is what makes float32 exact enough (see the design). The arrays are read-only views.

    Attributes:
        x0: the mean at training, rounded, int64 (ADU).
        s1: running sum of Y, float32.
        s2: running sum of Y², float32.
        trained_variance: the variance at training, float32 (ADU²).
        n_samples: memory of the running sums, in frames.

    Raises:
        ValueError: shapes differ, a value is not finite or out of range, or a variance is negative.
    """

    x0: NDArray[np.int64]
    s1: Float32
    s2: Float32
    trained_variance: Float32
    n_samples: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_samples", checked_n_samples(self.n_samples))
        for name, dtype in (("x0", np.int64), ("s1", np.float32), ("s2", np.float32), ("trained_variance", np.float32)):
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype).view()
            if array.ndim != 2 or array.shape != np.shape(self.x0):
                raise ValueError(f"the pedestal's {name} has the shape {array.shape}; all are (y, x), the same")
            if dtype is np.float32 and not np.isfinite(array).all():
                raise ValueError(f"the pedestal's {name} has values that are not finite")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if (self.trained_variance < 0).any():
            n_negative = int((self.trained_variance < 0).sum())
            raise ValueError(f"the pedestal's trained_variance is negative in {n_negative} pixels; a variance is not")
        if self.x0.size and max(int(self.x0.max()), -int(self.x0.min())) > LARGEST_MEAN:
            raise ValueError(f"the pedestal's x0 reaches beyond ±{LARGEST_MEAN:g} ADU: no supported frame does")

    @classmethod
    def from_dark(
        cls,
        dark: DarkFrames | ArrayLike,
        n_samples: int = 1000,
        *,
        common_mode: CommonMode | None = None,
        pixel_mask: ArrayLike | None = None,
    ) -> Self:
        """Train on dark frames (dark_frame, y, x), NumPy or Zarr, read block by block.

        Args:
            dark: the dark frames; with a common mode they are read twice.
            n_samples: memory of the running sums, in frames.
            common_mode: what moves together, as the finder's parameters have it: the noise is then what is left.
            pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked. Only a common mode minds it.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: fewer than two frames, or not three axes.

        Warns:
            UserWarning: fewer than 100 frames (false clusters a frame at 400×400 and 5σ: 6 193 with 2 darks, 50 with
                10, 4.5 with 20, 0.1 with 100).
        """
        sums = reduce(add, map(DarkSums.of, _blocks(dark)))
        if common_mode is None:
            return cls.from_sums(sums, n_samples)
        _require_enough_darks(sums)
        x0 = sums.offset()
        corrected = (DarkSums.of_corrected(block, x0, common_mode, pixel_mask) for block in _blocks(dark))
        return cls.from_corrected_sums(x0, reduce(add, corrected), n_samples)

    @classmethod
    def from_sums(cls, sums: DarkSums, n_samples: int = 1000) -> Self:
        """Train on sums of dark frames, however they were split.

        Raises and warns as `from_dark` does.
        """
        _require_enough_darks(sums)
        x0 = sums.offset()
        return cls._from_moments(x0, sums.moments_about(x0), sums.n_frames, n_samples)

    @classmethod
    def from_corrected_sums(cls, x0: NDArray[np.int64], sums: DarkSums, n_samples: int = 1000) -> Self:
        """Train with a common mode, on sums of dark frames from which it and `x0` were subtracted, however split.

        Args:
            x0: (y, x) ADU, the `offset` of the sums of the dark frames as they are.
            sums: from `DarkSums.of_corrected`.
            n_samples: memory of the running sums, in frames.

        Raises and warns as `from_dark` does.
        """
        _require_enough_darks(sums)
        return cls._from_moments(x0, sums.moments_about(np.zeros_like(x0)), sums.n_frames, n_samples)

    @classmethod
    def _from_moments(
        cls, x0: NDArray[np.int64], moments: tuple[NDArray[Any], NDArray[Any]], n: int, n_samples: int
    ) -> Self:
        n_samples = checked_n_samples(n_samples)
        if n < ENOUGH_DARKS:
            warnings.warn(
                f"only {n} dark frames: below {ENOUGH_DARKS} the noise is uncertain and false clusters appear",
                UserWarning,
                stacklevel=4,
            )
        first, second = moments
        scale = n_samples / n
        return cls._trained(x0, first * scale, second * scale, n_samples)

    @classmethod
    def from_mean_and_noise(cls, mean: ArrayLike, noise: ArrayLike, n_samples: int = 1000) -> Self:
        """A pedestal of known mean and noise (standard deviation), both (y, x) in ADU.

        Raises:
            ValueError: shapes differ, or a value is not finite, or the noise is negative.
        """
        n_samples = checked_n_samples(n_samples)
        mean64, noise64 = np.asarray(mean, np.float64), np.asarray(noise, np.float64)
        if mean64.ndim != 2 or mean64.shape != noise64.shape:
            raise ValueError(f"mean {mean64.shape} and noise {noise64.shape} must be (y, x), the same")
        if not (np.isfinite(mean64).all() and np.isfinite(noise64).all()):
            raise ValueError("the mean or the noise has values that are not finite; mask such pixels and give them 0")
        if (noise64 < 0).any():
            raise ValueError(f"the noise is negative in {int((noise64 < 0).sum())} pixels")
        if (np.abs(mean64) > LARGEST_MEAN).any() or (noise64 > LARGEST_MEAN).any():
            raise ValueError(f"the mean or the noise reaches beyond ±{LARGEST_MEAN:g} ADU: no supported frame does")
        x0 = np.floor(mean64 + 0.5)
        moved = mean64 - x0
        return cls._trained(x0.astype(np.int64), moved * n_samples, (noise64**2 + moved**2) * n_samples, n_samples)

    @classmethod
    def _trained(cls, x0: NDArray[np.int64], s1: NDArray[Any], s2: NDArray[Any], n_samples: int) -> Self:
        s1, s2 = s1.astype(np.float32), s2.astype(np.float32)
        return cls(x0, s1, s2, _variance(s1, s2, n_samples), n_samples)

    @property
    def shape(self) -> tuple[int, int]:
        """(y, x)."""
        rows, cols = self.x0.shape
        return rows, cols

    @property
    def mean(self) -> Float32:
        """The mean now (y, x), ADU."""
        moved = self.s1 * (np.float32(1) / np.float32(self.n_samples))
        return (self.x0 + moved.astype(np.float64)).astype(np.float32)

    @property
    def noise(self) -> Float32:
        """The noise now, one standard deviation (y, x), ADU."""
        return np.sqrt(_variance(self.s1, self.s2, self.n_samples))


def _require_enough_darks(sums: DarkSums) -> None:
    if not FEWEST_DARKS <= sums.n_frames <= LARGEST_N_FRAMES:
        raise ValueError(f"{sums.n_frames} dark frames: noise needs at least {FEWEST_DARKS} (100 or more are advised)")


def _variance(s1: Float32, s2: Float32, n_samples: int) -> Float32:
    """m − r·r, at least 0, in the finder's own arithmetic."""
    inv_n = np.float32(1) / np.float32(n_samples)
    r = s1 * inv_n
    m = s2 * inv_n
    variance: Float32 = np.maximum(m - r * r, np.float32(0))
    return variance


def _blocks(dark: DarkFrames | ArrayLike) -> Iterator[Any]:
    source: Any = dark if hasattr(dark, "shape") else np.asarray(dark)
    shape = source.shape
    if len(shape) != 3:
        raise ValueError(f"dark frames have the shape {shape}; expected three axes (dark_frame, y, x)")
    # A Zarr array is best read in whole chunks.
    chunk = getattr(source, "chunks", None) or (1,)
    frames = max(1, 8 * BLOCK_NBYTES // max(1, 2 * math.prod(shape[1:])))
    step = max(chunk[0], frames // chunk[0] * chunk[0])
    for first in range(0, max(shape[0], 1), step):
        yield source[first : first + step]
