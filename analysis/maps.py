"""Where on the detector the clusters lie, and when they came."""

import numpy as np
import xarray as xr

from analysis.blocks import blocks


def hit_map(ds: xr.Dataset, shape: tuple[int, int]) -> xr.DataArray:
    """Count the clusters whose central pixel is each pixel of a detector of `shape` (y, x).

    Raises:
        ValueError: A cluster lies outside.
    """
    counts = np.zeros(shape[0] * shape[1], np.int64)
    for block in blocks(ds, ("y", "x"), "cluster"):
        y, x = block["y"].to_numpy().astype(np.int64), block["x"].to_numpy()
        if len(y) and (y.max() >= shape[0] or x.max() >= shape[1]):
            raise ValueError(f"A cluster lies at ({y.max()}, {x.max()}), beyond the detector's shape {shape}.")
        pixel = y * shape[1] + x
        counts += np.bincount(pixel, minlength=len(counts))
    coords = {
        "y": ("y", np.arange(shape[0]), {"long_name": "row", "units": "pixel"}),
        "x": ("x", np.arange(shape[1]), {"long_name": "column", "units": "pixel"}),
    }
    attrs = {"long_name": "clusters a pixel", "units": "count"}
    return xr.DataArray(counts.reshape(shape), coords=coords, dims=("y", "x"), name="hit_map", attrs=attrs)


def rate(ds: xr.Dataset, frames: int = 1) -> xr.DataArray:
    """The mean number of clusters a frame, over successive groups of `frames` frames.

    Returns:
        float64 over the coordinate `frame`, the middle of each group counted from the archive's first frame. Frames
        whose status is not `ok` do not count; a group without any other is NaN.

    Raises:
        ValueError: `frames` below 1, or clusters of frames that the dataset no longer has.
    """
    if frames < 1:
        raise ValueError(f"frames is {frames}; it must be at least 1.")
    n_frames = ds.sizes["frame"]
    counts = _clusters_per_frame(ds)
    read = np.ones(n_frames, bool) if "frame_status" not in ds else ds["frame_status"].to_numpy() == 0
    starts = np.arange(0, n_frames, frames)
    if n_frames:
        totals = np.add.reduceat(np.where(read, counts, 0), starts, dtype=np.int64)
        valid = np.add.reduceat(read, starts, dtype=np.int64)
    else:
        totals = valid = np.zeros(0, np.int64)
    mean = np.full(len(starts), np.nan)
    np.divide(totals, valid, out=mean, where=valid > 0)
    middle = ds.attrs.get("first_frame", 0) + (starts + np.minimum(starts + frames, n_frames) - 1) / 2
    coords = {"frame": ("frame", middle, {"long_name": "frame", "units": "1"})}
    attrs = {"long_name": "clusters a frame", "units": "count", "frames_averaged": frames}
    return xr.DataArray(mean, coords=coords, dims="frame", name="rate", attrs=attrs)


def _clusters_per_frame(ds: xr.Dataset) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    stored = ds["n_clusters"].to_numpy().astype(np.int64) if "n_clusters" in ds else None
    if stored is not None and stored.sum() == ds.sizes["cluster"]:
        return stored
    # A selection of the clusters: the stored counts are those of all of them.
    counts = np.zeros(ds.sizes["frame"], np.int64)
    for block in blocks(ds, ("frame_index",), "cluster"):
        frame = block["frame_index"].to_numpy()
        if len(frame) and frame.max() >= len(counts):
            raise ValueError(
                f"A cluster belongs to frame {frame.max()} of {len(counts)}; "
                "select clusters by frame_index, and leave the dimension frame whole."
            )
        counts += np.bincount(frame, minlength=len(counts))
    return counts
