"""Bins of energy, and which of them each cluster falls into."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.arguments import two, whole
from analysis.compiled import Kernel

DEFAULT_BINS = 500
_SAMPLED_BLOCKS = 16
_SAMPLED_ROWS = 100_000
# From fewer clusters than these no range can be told: then it is that of the clusters before the filters.
_FEW = 20
# Of more steps a bin, one more or less is not seen.
_STEPS_A_BIN = 5
_MOST_BINS = 1 << 24

Bins = int | Sequence[float] | npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class UnevenBinsWarning(UserWarning):
    """Bins that hold now more, now fewer of the values that energies can have: their counts go up and down with it."""


@dataclass(frozen=True)
class Steps:
    """Energies that are `first` and whole numbers of `size` from it: whole ADU, or these on another scale.

    Attributes:
        first: One of them.
        size: The distance from one to the next.
    """

    first: float = 0.0
    size: float = 1.0


@dataclass(frozen=True)
class Binning:
    """Edges in ascending order; each bin holds its lower edge, the last one its upper edge too.

    Attributes:
        edges: (bin + 1)
        equal: whether all bins are equally wide.
    """

    edges: Floats
    equal: bool

    @staticmethod
    def of(
        bins: Bins,
        limits: tuple[float, float] | None,
        energies: xr.DataArray,
        steps: Steps | None,
        keep: xr.DataArray | None = None,
    ) -> "Binning":
        """The bins a user asked for.

        Args:
            bins: How many, or their edges. A number without `limits`, and the default with them, is an upper bound
                where energies come in steps: they get bins a whole number of steps wide, so that every bin holds
                equally many possible values.
            limits: Lowest and highest energy; left out, from 0 (or below, for negative energies) to a tenth above the
                energy that 99.5 % of a sample of the clusters stay below.
            energies: (cluster), of which a sample is looked at when no limits are given.
            steps: What energies are possible; None: any.
            keep: bool (cluster), which clusters count.

        Raises:
            ValueError: Bins or limits that make no sense.
            UnevenBinsWarning: (as a warning) few steps a bin, and now one more, now one less.
        """
        if np.ndim(bins):
            edges = np.asarray(bins, np.float64)
            if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
                raise ValueError("bins must be a number, or at least two finite edges in ascending order.")
            widths = np.diff(edges)
            return Binning(edges, bool(np.allclose(widths, widths[0], rtol=1e-9, atol=0)))
        n_bins = whole("bins", np.asarray(bins).item(), 1)
        if n_bins > _MOST_BINS:
            raise ValueError(f"bins is {n_bins}; it must be at most {_MOST_BINS}.")
        if limits is None:
            return Binning(_default_edges(_sample(energies, keep), n_bins, steps), equal=True)
        low, high = two("range", limits)
        if steps is not None and n_bins == DEFAULT_BINS:
            # A number that nobody chose.
            first, last = (low - steps.first) / steps.size, (high - steps.first) / steps.size
            return Binning(_whole_steps(first, last, n_bins, steps), equal=True)
        if steps is not None:
            _warn_of_uneven(low, high, n_bins, steps)
        edges = np.linspace(low, high, n_bins + 1)
        if not ((np.diff(edges) > 0).all() and np.isfinite(n_bins / (high - low))):
            raise ValueError(f"range is {limits}; {n_bins} bins between them are narrower than numbers can tell.")
        return Binning(edges, equal=True)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def centres(self) -> Floats:
        """The middle of each bin."""
        return (self.edges[:-1] + self.edges[1:]) / 2

    @property
    def width(self) -> float | None:
        """Of every bin, if they are equally wide."""
        return float((self.edges[-1] - self.edges[0]) / len(self)) if self.equal else None

    def count(self, counts: npt.NDArray[Any], values: Floats, group: npt.NDArray[np.int64] | None = None) -> None:
        """Add `values` to `counts` (group, bin + 3): the bins, then below, above, and not a number.

        Args:
            counts: What is added to.
            values: (cluster)
            group: (cluster) the row of `counts`, -1 for none; left out, row 0 for all.
        """
        if len(values):
            _count(values, np.empty(0, np.int64) if group is None else group, self.edges, self.equal, counts)

    def axis(self, dim: str, long_name: str, unit: str) -> xr.Variable:
        """The centres as the coordinate of a plot."""
        return xr.Variable(dim, self.centres, {"long_name": long_name, "units": unit})


def _default_edges(values: Floats, n_bins: int, steps: Steps | None) -> Floats:
    values = values[np.isfinite(values)]
    if steps is not None:
        values = (values - steps.first) / steps.size
    zero = 0.0 if steps is None else -steps.first / steps.size
    low, high = (float(min(values.min(), zero)), float(np.quantile(values, 0.995))) if len(values) else (zero, zero)
    high = zero + 1.1 * (high - zero)
    high = high if steps is None and high > low else max(high, low + 1)
    if steps is None:
        return np.linspace(low, high, n_bins + 1)
    return _whole_steps(low, high, n_bins, steps)


def _whole_steps(low: float, high: float, n_bins: int, steps: Steps) -> Floats:
    """Edges of at most about `n_bins` bins from `low` to `high`, which are given in steps.

    Whole steps a bin, edges halfway between two: any other width counts now one, now two values in a bin: a false comb.
    """
    width = int(np.ceil((high - low) / n_bins))
    n = int(np.ceil((high - low) / width))
    edges = np.floor(low) - 0.5 + width * np.arange(n + 1)
    return np.asarray(steps.first + steps.size * edges, np.float64)


def _warn_of_uneven(low: float, high: float, n_bins: int, steps: Steps) -> None:
    a_bin = (high - low) / n_bins / steps.size
    if a_bin > _STEPS_A_BIN or abs(a_bin - round(a_bin)) < 1e-6:
        return
    even = max(round(a_bin), 1) * steps.size
    warnings.warn(
        f"energies are {steps.size:.4g} apart, so bins {(high - low) / n_bins:.4g} wide hold now {int(a_bin)}, now "
        f"{int(a_bin) + 1} of them: a comb that is not in the photons; leave the range out, or give edges a whole "
        f"number of steps apart, such as np.arange({low:g}, {high:g}, {even:.6g})",
        UnevenBinsWarning,
        stacklevel=5,
    )


def _sample(energies: xr.DataArray, keep: xr.DataArray | None) -> Floats:
    """The energies of clusters from up to 16 places spread over the whole run."""
    n = energies.sizes["cluster"]
    rows = min(_SAMPLED_ROWS, n)
    starts = np.unique(np.linspace(0, n - rows, _SAMPLED_BLOCKS if n > rows else 1).astype(int))
    table = xr.Dataset({"energy": energies.variable, "keep": xr.ones_like(energies, bool) if keep is None else keep})
    parts = [table.isel(cluster=slice(a, a + rows // len(starts))).compute() for a in starts]
    found, kept = (np.concatenate([part[name].to_numpy() for part in parts]) for name in ("energy", "keep"))
    chosen: Floats = found[kept]
    return chosen if len(chosen) >= _FEW else found


@Kernel
def _count(values: Any, group: Any, edges: Any, equal: Any, counts: Any) -> Any:
    n = len(edges) - 1
    low, high = edges[0], edges[n]
    per_unit = n / (high - low)
    for i in range(len(values)):
        row = group[i] if len(group) else 0
        if row < 0:
            continue
        value = values[i]
        if value < low:
            counts[row, n] += 1
        elif value > high:
            counts[row, n + 1] += 1
        elif value != value:
            counts[row, n + 2] += 1
        elif equal:
            place = min(int((value - low) * per_unit), n - 1)
            if value < edges[place]:  # Rounding may miss by one; the edges decide.
                place -= 1
            elif place < n - 1 and value >= edges[place + 1]:
                place += 1
            counts[row, place] += 1
        else:
            first, last = 0, n - 1
            while first < last:
                middle = (first + last + 1) // 2
                if value >= edges[middle]:
                    first = middle
                else:
                    last = middle - 1
            counts[row, first] += 1
