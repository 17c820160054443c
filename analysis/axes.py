"""The axes of results: the detector's pixels, and time in frames."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.arguments import whole
from analysis.columns import per_cluster


def pixel_axes(shape: tuple[int, int]) -> dict[str, xr.Variable]:
    """The rows and columns of a detector of `shape` (y, x) as coordinates."""
    return {
        "y": xr.Variable("y", np.arange(shape[0]), {"long_name": "row", "units": "pixel"}),
        "x": xr.Variable("x", np.arange(shape[1]), {"long_name": "column", "units": "pixel"}),
    }


def frame_groups(ds: xr.Dataset, frames: int) -> tuple[npt.NDArray[np.int64], xr.Variable]:
    """Successive groups of `frames` frames of the dataset.

    Returns:
        The position along `frame` at which each begins, and the coordinate `frame`: the middle of each, counted from
        the archive's first frame.

    Raises:
        ValueError: `frames` below 1.
    """
    frames = whole("frames", frames, 1)
    n_frames = ds.sizes["frame"]
    starts = np.arange(0, n_frames, frames)
    middle = ds.attrs.get("first_frame", 0) + (starts + np.minimum(starts + frames, n_frames) - 1) / 2
    return starts, xr.Variable("frame", middle, {"long_name": "frame"})


def frame_of(ds: xr.Dataset) -> xr.DataArray:
    """The position of each cluster's frame along `frame`, int64 (cluster); lazy when the dataset is.

    Raises:
        ValueError: When it is computed, clusters of frames that the dataset no longer has.
    """
    found: xr.DataArray = per_cluster(partial(_checked, ds.sizes["frame"]), [ds["frame_index"]], (np.int64,))
    return found


def _checked(n_frames: int, frame: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if len(frame) and (frame.max() >= n_frames or (frame.dtype.kind == "i" and frame.min() < 0)):
        wrong = frame.max() if frame.max() >= n_frames else frame.min()
        raise ValueError(
            f"A cluster belongs to frame {wrong} of {n_frames}; "
            "select frames with ds.photons.frame_range(), or leave the dimension frame whole."
        )
    return frame.astype(np.int64)
