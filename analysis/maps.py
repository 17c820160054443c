"""Where on the detector the clusters lie, and when they came."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.adding_up import add_up
from analysis.arguments import whole
from analysis.axes import frame_groups, frame_of, pixel_axes
from analysis.columns import require_on
from analysis.compiled import Kernel

Counts = npt.NDArray[np.int64]


def hit_map(ds: xr.Dataset, shape: tuple[int, int], keep: xr.DataArray | None = None) -> xr.DataArray:
    """Count the clusters whose central pixel is each pixel of a detector of `shape` (y, x).

    Raises:
        ValueError: A cluster lies outside.
    """
    columns = [ds["y"], ds["x"], *([] if keep is None else [keep])]
    counts = add_up(partial(_hits, shape), shape[0] * shape[1], columns)
    attrs = {"long_name": "clusters a pixel", "units": "count"}
    return xr.DataArray(counts.reshape(shape), coords=pixel_axes(shape), dims=("y", "x"), name="hit_map", attrs=attrs)


def rate(ds: xr.Dataset, frames: int = 1, keep: xr.DataArray | None = None) -> xr.DataArray:
    """The mean number of clusters a frame, over successive groups of `frames` frames.

    Returns:
        float64 over the coordinate `frame`, the middle of each group counted from the archive's first frame. Frames
        whose status is not `ok` do not count; a group without any other is NaN.

    Raises:
        ValueError: `frames` below 1, or clusters of frames that the dataset no longer has.
    """
    frames = whole("frames", frames, 1)
    starts, middle = frame_groups(ds, frames)
    n_frames = ds.sizes["frame"]
    counts = clusters_per_frame(ds, keep)
    read = np.ones(n_frames, bool) if "frame_status" not in ds else ds["frame_status"].to_numpy() == 0
    if n_frames:
        totals = np.add.reduceat(np.where(read, counts, 0), starts, dtype=np.int64)
        valid = np.add.reduceat(read, starts, dtype=np.int64)
    else:
        totals = valid = np.zeros(0, np.int64)
    mean = np.full(len(starts), np.nan)
    np.divide(totals, valid, out=mean, where=valid > 0)
    attrs = {"long_name": "clusters a frame", "units": "count", "frames_averaged": frames}
    return xr.DataArray(mean, coords={"frame": middle}, dims="frame", name="rate", attrs=attrs)


def counts_hold(ds: xr.Dataset) -> bool:
    """Whether `n_clusters` counts the clusters that the dataset has, and not those of which they were selected.

    A dataset without a list of clusters has those that it counts.
    """
    if "cluster" not in ds.sizes:
        return "n_clusters" in ds
    return "n_clusters" in ds and int(ds["n_clusters"].sum(dtype=np.int64)) == ds.sizes["cluster"]


def clusters_per_frame(ds: xr.Dataset, keep: xr.DataArray | None = None) -> Counts:
    """Count the clusters of each frame, (frame): those stored, where they count all the clusters there are."""
    if keep is None and counts_hold(ds):
        return ds["n_clusters"].to_numpy().astype(np.int64)
    counts = np.zeros(ds.sizes["frame"], np.int64)
    index = frame_of(ds)
    return counts + add_up(partial(_per_frame, len(counts)), len(counts), [index, *([] if keep is None else [keep])])


def _per_frame(n_frames: int, frame: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_] | None = None) -> Counts:
    return np.bincount(frame if keep is None else frame[keep], minlength=n_frames)


def _hits(
    shape: tuple[int, int], y: npt.NDArray[Any], x: npt.NDArray[Any], keep: npt.NDArray[np.bool_] | None = None
) -> Counts:
    require_on(shape, y, x)
    counts = np.zeros(shape, np.int64)
    if len(y):
        _count_hits(y, x, np.empty(0, np.bool_) if keep is None else keep, counts)
    return counts.reshape(-1)


@Kernel
def _count_hits(y: Any, x: Any, keep: Any, counts: Any) -> Any:
    for i in range(len(y)):
        if len(keep) == 0 or keep[i]:
            counts[y[i], x[i]] += 1
