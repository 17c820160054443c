"""The parameters of the cluster search, validated once."""

from __future__ import annotations

import math
import operator
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from finder.common_mode import CommonMode
from finder.gain_bits import checked_gain_bits

Noise = Literal["running", "trained"]

SMALLEST_WINDOW = 3
LARGEST_WINDOW = 9
LARGEST_N_SAMPLES = 2**31 - 1
LARGEST_N_SIGMA = 1e9
LOWEST_RUNNING_N_SIGMA = 3.0


@dataclass(frozen=True)
class FinderParameters:
    """What makes a cluster, and how fast the pedestal follows the frames.

    Args:
        n_sigma: threshold in units of a pixel's noise, above 0.
        cluster_size: (rows, columns) of the window around a cluster's centre, each odd, from 3 to 9.
        n_samples: memory of the running pedestal, in frames.
        noise: "running": the noise is followed with the pedestal; "trained": it stays as the darks had it.
        common_mode: what moves together from frame to frame, and is subtracted before anything else; None: nothing.
        gain_bits: bits above the value in a detector's 16-bit words, 2 for a Jungfrau. Where they are not all 0 a pixel
            is in another gain, and absent from that frame. 0: words have no such bits.

    Raises:
        ValueError: a value is out of its range.
        TypeError: the common mode is not a `CommonMode`.

    Warns:
        UserWarning: the noise runs and n_sigma is below 3. Then the noise is estimated from values that its own
            threshold has cut off, and shrinks (to 0.72 of its value after 50 000 frames at n_sigma 2).
    """

    n_sigma: float = 5.0
    cluster_size: tuple[int, int] = (3, 3)
    n_samples: int = 1000
    noise: Noise = "running"
    common_mode: CommonMode | None = None
    gain_bits: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_sigma", _checked_n_sigma(self.n_sigma))
        object.__setattr__(self, "cluster_size", _checked_cluster_size(self.cluster_size))
        object.__setattr__(self, "n_samples", checked_n_samples(self.n_samples))
        if self.noise not in get_args(Noise):
            raise ValueError(f"noise is {self.noise!r}; it must be 'running' or 'trained'")
        if not isinstance(self.common_mode, CommonMode | None):
            raise TypeError(f"common_mode is {self.common_mode!r}; it must be None or CommonMode.parse({'row'!r}), ...")
        object.__setattr__(self, "gain_bits", checked_gain_bits(self.gain_bits))
        if self.noise == "running" and self.n_sigma < LOWEST_RUNNING_N_SIGMA:
            warnings.warn(
                f"n_sigma {self.n_sigma:g} with running noise: below {LOWEST_RUNNING_N_SIGMA:g} the noise is measured "
                "on values cut off by its own threshold and shrinks from frame to frame; use noise='trained'",
                UserWarning,
                stacklevel=3,
            )

    def with_gain_bits(self, gain_bits: int) -> FinderParameters:
        """The same parameters with these gain bits; what was warned of once is not warned of again.

        Raises:
            ValueError: as for the parameters themselves.
        """
        other = copy(self)
        object.__setattr__(other, "gain_bits", checked_gain_bits(gain_bits))
        return other

    @property
    def inverse_n_samples(self) -> np.float32:
        """1 / n_samples, rounded once to float32: inv_n of the design."""
        return np.float32(1) / np.float32(self.n_samples)

    @property
    def squared_n_sigma(self) -> np.float32:
        """n_sigma · n_sigma in float32: ns2 of the design."""
        return np.float32(self.n_sigma) * np.float32(self.n_sigma)

    @property
    def area(self) -> np.float32:
        """Pixels in the window, as float32."""
        return np.float32(self.cluster_size[0] * self.cluster_size[1])


def checked_n_samples(n_samples: int) -> int:
    """`n_samples` as an int.

    Raises:
        ValueError: it is not a whole number from 1 to 2³¹ − 1.
    """
    try:
        value = operator.index(n_samples)
    except TypeError:
        value = 0
    if not 1 <= value <= LARGEST_N_SAMPLES or isinstance(n_samples, bool):
        raise ValueError(f"n_samples is {n_samples!r}; it must be a whole number from 1 to {LARGEST_N_SAMPLES}")
    return value


def _checked_n_sigma(n_sigma: float) -> float:
    try:
        value = float(n_sigma)
    except (TypeError, ValueError):
        value = math.nan
    # The upper bound keeps n_sigma² and every threshold made with it finite in float32.
    if not 0 < value <= LARGEST_N_SIGMA:
        raise ValueError(f"n_sigma is {n_sigma!r}; it must be a number above 0, at most {LARGEST_N_SIGMA:g}")
    return value


def _checked_cluster_size(cluster_size: tuple[int, int]) -> tuple[int, int]:
    try:
        rows, cols = (operator.index(side) for side in cluster_size)
    except (TypeError, ValueError):
        rows, cols = 0, 0
    if any(side % 2 == 0 or not SMALLEST_WINDOW <= side <= LARGEST_WINDOW for side in (rows, cols)):
        raise ValueError(
            f"cluster_size is {cluster_size!r}; it must be (rows, columns), "
            f"each an odd number from {SMALLEST_WINDOW} to {LARGEST_WINDOW}"
        )
    return rows, cols
