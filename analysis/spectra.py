"""The energy of each cluster, and how often each energy occurs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.blocks import blocks

DEFAULT_BINS = 500
_SAMPLED_BLOCKS = 16
_SAMPLED_ROWS = 100_000

Bins = int | Sequence[float] | npt.NDArray[Any]


def energy(ds: xr.Dataset) -> xr.DataArray:
    """The sum over each cluster's window, (cluster), ADU; lazy when the dataset is."""
    total = ds["signal"].sum(("cluster_y", "cluster_x")).rename("energy")
    return total.assign_attrs(long_name="cluster energy", units="ADU")


def spectrum(ds: xr.Dataset, bins: Bins = DEFAULT_BINS, limits: tuple[float, float] | None = None) -> xr.DataArray:
    """Count the clusters in each bin of energy.

    Args:
        ds: Clusters with `signal`.
        bins: How many bins, or their edges in ADU. A number of bins without `limits` is an upper bound: integer
            signals get bins a whole number of ADU wide, so that every bin holds equally many possible values.
        limits: Lowest and highest energy, ADU; left out, from 0 (or below, for negative sums) to a tenth above the
            energy that 99.5 % of a sample of the clusters stay below.

    Returns:
        Counts over the coordinate `energy` (ADU, bin centres). The attributes `bin_width` (ADU, equal bins only),
        `below` and `above` (clusters outside the bins) come along.

    Raises:
        ValueError: Bins or limits that make no sense.
    """
    edges = _edges(ds, bins, limits)
    counts = np.zeros(len(edges) - 1, np.int64)
    below = above = 0
    for block in blocks(ds, ("signal",), "cluster"):
        values = energy(block).to_numpy()
        counts += np.histogram(values, edges if np.ndim(bins) else len(counts), (edges[0], edges[-1]))[0]
        below += int((values < edges[0]).sum())
        above += int((values > edges[-1]).sum())
    widths = np.diff(edges)
    attrs: dict[str, Any] = {"long_name": "clusters a bin", "units": "count", "below": below, "above": above}
    if np.allclose(widths, widths[0], rtol=1e-9):
        width = float((edges[-1] - edges[0]) / len(counts))
        attrs |= {"long_name": f"clusters per {width:g} ADU", "bin_width": width}
    centres = xr.Variable("energy", (edges[:-1] + edges[1:]) / 2, {"long_name": "cluster energy", "units": "ADU"})
    return xr.DataArray(counts, coords={"energy": centres}, dims="energy", name="spectrum", attrs=attrs)


def _edges(ds: xr.Dataset, bins: Bins, limits: tuple[float, float] | None) -> npt.NDArray[np.float64]:
    if np.ndim(bins):
        edges = np.asarray(bins, np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
            raise ValueError("bins must be a number, or at least two finite edges in ascending order.")
        return edges
    n_bins = int(bins)  # type: ignore[arg-type]
    if n_bins < 1:
        raise ValueError(f"bins is {bins}; it must be at least 1.")
    if limits is None:
        return _default_edges(ds, n_bins)
    low, high = limits
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"range is {limits}; it must be two finite energies in ADU, the lower one first.")
    return np.linspace(low, high, n_bins + 1)


def _default_edges(ds: xr.Dataset, n_bins: int) -> npt.NDArray[np.float64]:
    values = _sample(ds)
    low, high = (float(min(values.min(), 0)), 1.1 * float(np.quantile(values, 0.995))) if len(values) else (0.0, 1.0)
    high = max(high, low + 1)
    if ds["signal"].dtype.kind == "f":
        return np.linspace(low, high, n_bins + 1)
    # Whole ADU a bin, edges on the halves: any other width counts now one, now two integers in a bin: a false comb.
    width = int(np.ceil((high - low) / n_bins))
    n = int(np.ceil((high - low) / width))
    return np.asarray(np.floor(low) - 0.5 + width * np.arange(n + 1), np.float64)


def _sample(ds: xr.Dataset) -> npt.NDArray[Any]:
    """The energies of clusters from up to 16 places spread over the whole run."""
    n = ds.sizes["cluster"]
    rows = min(_SAMPLED_ROWS, n)
    starts = np.unique(np.linspace(0, n - rows, _SAMPLED_BLOCKS if n > rows else 1).astype(int))
    parts = [energy(ds[["signal"]].isel(cluster=slice(a, a + rows // len(starts)))).to_numpy() for a in starts]
    return np.concatenate(parts)
