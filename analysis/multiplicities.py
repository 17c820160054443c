"""How many pixels a photon lit, and on which sides."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import windows
from analysis.adding_up import add_up
from analysis.arguments import number
from analysis.columns import WINDOW, per_cluster, require_on

Floats = npt.NDArray[np.float64]


def corner(ds: xr.Dataset) -> xr.DataArray:
    """Which of the four 2×2 squares around the centre holds most, uint8 (cluster)."""
    windows.require_3x3("the largest 2×2", tuple(ds["signal"].sizes[dim] for dim in WINDOW))
    found: xr.DataArray = per_cluster(_corners, [ds["signal"]], (np.uint8,))
    return found.rename("corner").assign_attrs(
        long_name="corner of the largest 2×2",
        flag_values=list(range(4)),
        flag_meanings=" ".join(windows.CORNERS),
    )


def pixels_above(ds: xr.Dataset, k: float, noise: Floats) -> xr.DataArray:
    """How many pixels of each window lie above k times their own noise, uint8 (cluster)."""
    k = number("k", k)
    found: xr.DataArray = per_cluster(partial(_above, k * noise), [ds["signal"], ds["y"], ds["x"]], (np.uint8,))
    return found.rename("pixels_above").assign_attrs(long_name=f"pixels above {k:g} times the noise")


def multiplicity(ds: xr.Dataset, k: float, noise: Floats, keep: xr.DataArray | None) -> xr.DataArray:
    """Count the clusters with each number of pixels above k times their noise, (multiplicity)."""
    n = 1 + int(np.prod([ds["signal"].sizes[dim] for dim in WINDOW]))
    found = pixels_above(ds, k, noise)
    counts = add_up(partial(_counted, n), n, [found, *([] if keep is None else [keep])])
    axis = xr.Variable("multiplicity", np.arange(n), found.attrs)
    attrs = {"long_name": "clusters", "units": "count"}
    return xr.DataArray(counts, coords={"multiplicity": axis}, dims="multiplicity", name="multiplicity", attrs=attrs)


def _corners(signal: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return windows.largest_2x2(signal)[1]


def _above(
    threshold: Floats, signal: npt.NDArray[Any], y: npt.NDArray[Any], x: npt.NDArray[Any]
) -> npt.NDArray[np.uint8]:
    if threshold.ndim == 0:
        return np.asarray((signal > threshold).sum(axis=(1, 2)), np.uint8)
    require_on(threshold.shape, y, x)
    return windows.above(signal, y, x, threshold)


def _counted(n: int, values: npt.NDArray[np.uint8], keep: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:
    return np.bincount(values if keep is None else values[keep], minlength=n)
