"""What a run can count instead of keeping its clusters: a spectrum, a hit map, a histogram of eta.

Everything is counted in exact integers, from the signal rounded half away from zero to whole ADU, so that any backend
gives the same counts, and counts of parts of a run add up to the same in any order.

    spectrum   E = the window's sum; bin (E - low) // width; below `low` and from `high` on counted apart
    hit map    the pixel (y, x) of the cluster's centre
    eta        of the four 2×2 squares that hold the centre, the one with the largest sum (of equal ones the first, in
               the order (low y, low x), (low y, high x), (high y, low x), (high y, high x)); in the centre's row
               eta_x = right / (left + right) of its two pixels, in the centre's column eta_y likewise;
               bin floor(n · (eta + 1/4) / (3/2)) = floor(n · (4·right + sum) / (6·sum)), in integers, values beyond
               -1/4 and 5/4 in the outermost bins; clusters with a sum of 0 are counted apart

The eta is that of `ds.photons.eta("2x2")` and of aare's `calculate_eta2`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from finder.compiled_code import Code, compiled

ProductName = Literal["spectrum", "hitmap", "eta"]
PRODUCTS: tuple[ProductName, ...] = get_args(ProductName)

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class SpectrumBins:
    """Bins of a spectrum, whole ADU: `[low, low + width)` and so on up to `high`.

    Raises:
        ValueError: No whole number of bins, or too many.
    """

    low: int = 0
    high: int = 16_384
    width: int = 1

    MOST = 1 << 20

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.width >= 1) or (self.high - self.low) % self.width:
            raise ValueError(
                f"spectrum bins {self.low}:{self.high}:{self.width}: give low:high:width in whole ADU, such as "
                "0:16384:1, the width a part of the range"
            )
        if len(self) > self.MOST:
            raise ValueError(
                f"spectrum bins {self.low}:{self.high}:{self.width} are {len(self)}, more than {self.MOST}"
            )

    def __len__(self) -> int:
        return (self.high - self.low) // self.width

    @property
    def edges(self) -> NDArray[np.float64]:
        """The bins' edges, between the integers: for `ds.photons.spectrum(edges)`."""
        return np.asarray(self.low - 0.5 + self.width * np.arange(len(self) + 1), np.float64)

    @property
    def centres(self) -> NDArray[np.float64]:
        """The mean of the integers in each bin."""
        return np.asarray(self.low + self.width * np.arange(len(self)) + (self.width - 1) / 2, np.float64)


@dataclass(frozen=True)
class ProductOptions:
    """What to count.

    Attributes:
        names: Of `PRODUCTS`, in that order; none is nothing.
        spectrum: The bins of the spectrum.
        eta_bins: Bins of eta along each axis.

    Raises:
        ValueError: A name that there is not, or no bins.
    """

    names: tuple[str, ...] = ()
    spectrum: SpectrumBins = SpectrumBins()
    eta_bins: int = 150

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in PRODUCTS:
                raise ValueError(f"product {name!r} is none of {', '.join(PRODUCTS)}")
        if not 1 <= self.eta_bins <= 4096:
            raise ValueError(f"eta bins are {self.eta_bins}; they must be 1 to 4096")
        object.__setattr__(self, "names", tuple(name for name in PRODUCTS if name in self.names))

    def in_words(self) -> str:
        """What is counted, and in which bins: the same words for the same counts."""
        bins = {
            "spectrum": f" {self.spectrum.low}:{self.spectrum.high}:{self.spectrum.width} ADU",
            "eta": f" in {self.eta_bins} bins",
        }
        return ", ".join(f"{name}{bins.get(name, '')}" for name in self.names)


@dataclass(frozen=True, eq=False)
class Products:
    """Counts of some frames; those that were not asked for are empty arrays.

    Attributes:
        spectrum: int64 (bin + 2); the last two are the clusters below and above the bins.
        hit_map: int64 (y, x).
        eta: int64 (eta_y · bins + eta_x, and one more): the last one is the clusters without an eta.
    """

    spectrum: Counts
    hit_map: Counts
    eta: Counts

    @staticmethod
    def zeros(options: ProductOptions, frame_shape: tuple[int, int]) -> Products:
        """No cluster yet."""
        sizes = {"spectrum": (len(options.spectrum) + 2,), "hitmap": frame_shape, "eta": (options.eta_bins**2 + 1,)}
        empty = {"spectrum": (0,), "hitmap": (0, 0), "eta": (0,)}
        return Products(*(np.zeros((sizes if name in options.names else empty)[name], np.int64) for name in PRODUCTS))

    def add(self, other: Products) -> None:
        """Add the counts of other frames to these."""
        for mine, theirs in zip(self.arrays, other.arrays, strict=True):
            np.add(mine, theirs, out=mine, casting="unsafe")

    @property
    def arrays(self) -> tuple[Counts, Counts, Counts]:
        """All counts."""
        return self.spectrum, self.hit_map, self.eta

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)

    def narrowed(self) -> Products:
        """The same counts in the smallest type that holds them: a quarter of the bytes to send, most often."""
        return replace(self, **{name: _narrowed(getattr(self, name)) for name in ("spectrum", "hit_map", "eta")})

    def __reduce__(self) -> tuple[Any, ...]:
        return Products, self.arrays


class ProductCounter:
    """Counts the clusters that it is given.

    Args:
        options: What to count.
        frame_shape: Rows and columns of the detector.
        cluster_size: Rows and columns of the window.

    Raises:
        ValueError: Eta of windows below 3×3.
    """

    def __init__(self, options: ProductOptions, frame_shape: tuple[int, int], cluster_size: tuple[int, int]) -> None:
        if "eta" in options.names and min(cluster_size) < 3:
            raise ValueError(f"eta needs windows of 3x3 at least, not {cluster_size[0]}x{cluster_size[1]}")
        self.products = Products.zeros(options, frame_shape)
        self._options = options

    def add(self, y: NDArray[Any], x: NDArray[Any], signal: NDArray[np.int32]) -> None:
        """Count clusters.

        Args:
            y: Row of the centre (cluster).
            x: Column of the centre (cluster).
            signal: Windows (cluster, cluster_y, cluster_x), whole ADU.
        """
        bins, signal = self._options.spectrum, np.ascontiguousarray(signal)
        if len(signal) == 0:
            return
        if "spectrum" in self._options.names:
            sums = signal.reshape(len(signal), -1), bins.low, bins.width, self.products.spectrum
            compiled(SUMS, *sums)(*sums)
        if "hitmap" in self._options.names:
            # Of one type, however large the detector is: the compiled code is stored for one.
            hits = y.astype(np.uint32), x.astype(np.uint32), self.products.hit_map
            compiled(HITS, *hits)(*hits)
        if "eta" in self._options.names:
            etas = signal, self._options.eta_bins, self.products.eta
            compiled(ETA, *etas)(*etas)


def added(parts: Sequence[Products]) -> Products:
    """The counts of all parts together, int64; at least one part."""
    total = Products(*(array.astype(np.int64) for array in parts[0].arrays))
    for part in itertools.islice(parts, 1, None):
        total.add(part)
    return total


def _narrowed(counts: NDArray[Any]) -> NDArray[Any]:
    most = int(counts.max(initial=0))
    return counts.astype(np.min_scalar_type(most))


def _sums() -> Callable[..., Any]:
    from finder.product_kernels import count_sums

    return count_sums


def _hits() -> Callable[..., Any]:
    from finder.product_kernels import count_hits

    return count_hits


def _eta() -> Callable[..., Any]:
    from finder.product_kernels import count_eta

    return count_eta


_SOURCES = ("product_kernels.py",)
SUMS = Code("count_sums", _sums, _SOURCES, "the spectrum", 2)
HITS = Code("count_hits", _hits, _SOURCES, "the hit map", 2)
ETA = Code("count_eta", _eta, _SOURCES, "the histogram of eta", 2)
