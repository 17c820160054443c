"""The noise of each pixel: as given, or as it is stored with a dataset."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.arguments import real_map, require_shape_of
from analysis.gain import Map

_GIVE = "give noise=, a map (y, x) or one number in ADU"


def noise_of(ds: xr.Dataset, noise: Map | None) -> npt.NDArray[np.float64]:
    """The noise of each pixel, ADU, (y, x) or one number: `noise` if given, or that of the dataset's own pedestal.

    Raises:
        ValueError: Neither, or no noise of this detector.
    """
    found = real_map("noise", _stored(ds) if noise is None else noise)
    if found.ndim not in (0, 2):
        raise ValueError(f"noise has the shape {found.shape}; it must be a number or a map (y, x), ADU.")
    if found.ndim:
        require_shape_of(ds, "noise", found.shape)
    if (found < 0).any() or not np.isfinite(found).any():
        raise ValueError("noise is negative or not finite; it must be a number or a map (y, x), ADU, of 0 or more.")
    return np.ascontiguousarray(found) if found.ndim else found


def _stored(ds: xr.Dataset) -> xr.DataArray:
    source = ds.encoding.get("source")
    if source is None:
        raise ValueError(
            "The dataset does not say where its pedestal is stored; "
            "give noise=xr.open_zarr(path, group='pedestal').noise, or one number in ADU."
        )
    try:
        noise: xr.DataArray = xr.open_zarr(source, group="pedestal")["noise"]
    except (KeyError, OSError, ValueError, ImportError):
        if "://" in str(source):
            todo = f"{_GIVE}, or cluster_store.read_table({str(source)!r}, 'pedestal').noise if it has one"
        else:
            todo = f"{_GIVE} (a dataset made of a .clust file has none)"
        raise ValueError(f"No pedestal is found in {source}, and so no noise: {todo}.") from None
    return noise
