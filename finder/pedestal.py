"""The pedestal: each pixel's mean and noise, as the state of a running estimate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.common_mode import CommonMode
from finder.common_mode_correction import CommonModeCorrection
from finder.dark_clip import checked_clip, clipped, first_range, sample_of
from finder.dark_sums import LARGEST_N_FRAMES, DarkSums, ValueRange
from finder.frames import BLOCK_NBYTES, checked_frames
from finder.gain_bits import checked_gain_bits, in_another_gain
from finder.parameters import checked_n_samples
from finder.pixel_mask import masked_pixels

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
        gain_bits: int = 0,
        clip: float | None = None,
    ) -> Self:
        """Train on dark frames (dark_frame, y, x), NumPy or Zarr, read block by block.

        Args:
            dark: the dark frames; with a common mode they are read twice, with a clip several times.
            n_samples: memory of the running sums, in frames.
            common_mode: what moves together, as the finder's parameters have it: the noise is then what is left.
            pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked. Only a common mode minds it.
            gain_bits: bits above the value in a 16-bit word: a pixel is trained on its darks in gain 0.
            clip: values so many noise widths from their pixel's mean are left out, as `finder.dark_clip` has it; None
                leaves out none.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: fewer than two frames, or not three axes; or a clip below 2 or above 1000.

        Warns:
            UserWarning: fewer than 100 frames (false clusters a frame at 400×400 and 5σ: 6 193 with 2 darks, 50 with
                10, 4.5 with 20, 0.1 with 100); or pixels that have fewer than two darks in gain 0.
        """
        checked_gain_bits(gain_bits)
        sums = _summed(dark, partial(DarkSums.of, gain_bits=gain_bits), clip, gain_bits)
        _require_enough(sums.n_frames)
        if gain_bits and (n_untrained := int((sums.n_values < FEWEST_DARKS).sum())):
            warnings.warn(
                f"{n_untrained} pixels have fewer than {FEWEST_DARKS} darks in gain 0: mask them",
                UserWarning,
                stacklevel=2,
            )
        if common_mode is None:
            return cls.from_sums(sums, n_samples)
        x0 = sums.offset()
        masked = None if pixel_mask is None else masked_pixels(pixel_mask, sums.shape)
        correction = CommonModeCorrection(common_mode, x0, masked, gain_bits)
        of_corrected = partial(
            DarkSums.of_corrected, x0=x0, common_mode=common_mode, pixel_mask=masked, gain_bits=gain_bits
        )
        left = _summed(dark, of_corrected, clip, gain_bits, correction)
        return cls.from_corrected_sums(x0, left, n_samples)

    @classmethod
    def from_sums(cls, sums: DarkSums, n_samples: int = 1000) -> Self:
        """Train on sums of dark frames, however they were split.

        Raises and warns as `from_dark` does.
        """
        _require_enough(sums.n_frames)
        x0 = sums.offset()
        return cls._from_moments(x0, sums, x0, n_samples)

    @classmethod
    def from_corrected_sums(cls, x0: NDArray[np.int64], sums: DarkSums, n_samples: int = 1000) -> Self:
        """Train with a common mode, on sums of dark frames from which it and `x0` were subtracted, however split.

        Args:
            x0: (y, x) ADU, the `offset` of the sums of the dark frames as they are.
            sums: from `DarkSums.of_corrected`.
            n_samples: memory of the running sums, in frames.

        Raises and warns as `from_dark` does.
        """
        _require_enough(sums.n_frames)
        return cls._from_moments(x0, sums, np.zeros_like(x0), n_samples)

    @classmethod
    def _from_moments(cls, x0: NDArray[np.int64], sums: DarkSums, about: NDArray[np.int64], n_samples: int) -> Self:
        n_samples = checked_n_samples(n_samples)
        if sums.n_frames < ENOUGH_DARKS:
            warnings.warn(
                f"only {sums.n_frames} dark frames: below {ENOUGH_DARKS} the noise is uncertain and false clusters "
                "appear",
                UserWarning,
                stacklevel=4,
            )
        first, second = sums.moments_about(about)
        # A pixel without values gets no pedestal, and is to be masked.
        scale = n_samples / np.maximum(sums.n_values, 1)
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


def _summed(
    dark: DarkFrames | ArrayLike,
    summed: Callable[..., DarkSums],
    clip: float | None,
    gain_bits: int,
    correction: CommonModeCorrection | None = None,
) -> DarkSums:
    """The sums of all darks, without what is clipped."""

    def total(within: ValueRange | None = None) -> DarkSums:
        return reduce(add, (summed(block, within=within) for block in _blocks(dark)))

    if clip is None:
        return total()
    noise_widths = checked_clip(clip)
    source = _darks(dark)
    some = [source[i : i + 1] for i in sample_of(source.shape[0])]
    sample = checked_frames(np.concatenate([*some, source[:0]]), what="dark frames")
    _require_enough(len(sample))
    counts = ~in_another_gain(sample, gain_bits)
    values = sample if correction is None else correction.corrected(sample)
    return clipped(total, first_range(values, counts, noise_widths), noise_widths)[0]


def _require_enough(n_darks: int) -> None:
    if not FEWEST_DARKS <= n_darks <= LARGEST_N_FRAMES:
        raise ValueError(f"{n_darks} dark frames: noise needs at least {FEWEST_DARKS} (100 or more are advised)")


def _variance(s1: Float32, s2: Float32, n_samples: int) -> Float32:
    """m − r·r, at least 0, in the finder's own arithmetic."""
    inv_n = np.float32(1) / np.float32(n_samples)
    r = s1 * inv_n
    m = s2 * inv_n
    variance: Float32 = np.maximum(m - r * r, np.float32(0))
    return variance


def _darks(dark: DarkFrames | ArrayLike) -> Any:
    source: Any = dark if hasattr(dark, "shape") else np.asarray(dark)
    if len(source.shape) != 3:
        raise ValueError(f"dark frames have the shape {source.shape}; expected three axes (dark_frame, y, x)")
    return source


def _blocks(dark: DarkFrames | ArrayLike) -> Iterator[Any]:
    source = _darks(dark)
    shape = source.shape
    # A Zarr array is best read in whole chunks.
    chunk = getattr(source, "chunks", None) or (1,)
    frames = max(1, 8 * BLOCK_NBYTES // max(1, 2 * math.prod(shape[1:])))
    step = max(chunk[0], frames // chunk[0] * chunk[0])
    for first in range(0, max(shape[0], 1), step):
        yield source[first : first + step]
