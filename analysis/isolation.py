"""Which clusters stand alone."""

import numpy as np
import numpy.typing as npt
import xarray as xr
from numba import njit

from analysis.blocks import blocks

Indices = npt.NDArray[np.int64]


def isolated(ds: xr.Dataset, radius: int) -> xr.DataArray:
    """Say of each cluster whether no other one of its frame lies within `radius` pixels, along rows and columns.

    Two clusters are neighbours when both |Δy| and |Δx| are at most `radius`, so windows of n×n pixels around isolated
    clusters share no pixel from radius n - 1 on.

    Args:
        ds: Clusters with `frame_index`, `y`, `x`, in any order; sorted ones (as written) are gone through in blocks.
        radius: Pixels, at least 0.

    Returns:
        bool (cluster).

    Raises:
        ValueError: A negative radius.
    """
    if radius < 0:
        raise ValueError(f"radius is {radius} pixels; it must be at least 0.")
    alone = np.ones(ds.sizes["cluster"], np.bool_)
    waiting = np.zeros((3, 0), np.int64)
    done = 0
    for block in blocks(ds, ("frame_index", "y", "x"), "cluster"):
        rows = np.concatenate([waiting, _columns(block)], axis=1)
        if not _sorted(rows):
            return _as_array(_isolated_in_any_order(ds, radius))
        # The last frame may go on in the next block.
        cut = int(np.searchsorted(rows[0], rows[0, -1])) if rows.shape[1] else 0
        _mark_neighbours(rows[0, :cut], rows[1, :cut], rows[2, :cut], radius, alone[done : done + cut])
        done += cut
        waiting = rows[:, cut:]
    _mark_neighbours(waiting[0], waiting[1], waiting[2], radius, alone[done:])
    return _as_array(alone)


def _isolated_in_any_order(ds: xr.Dataset, radius: int) -> npt.NDArray[np.bool_]:
    rows = _columns(ds[["frame_index", "y", "x"]].compute())
    order = np.lexsort((rows[2], rows[1], rows[0]))
    rows = rows[:, order]
    marked = np.ones(len(order), np.bool_)
    _mark_neighbours(rows[0], rows[1], rows[2], radius, marked)
    alone = np.empty_like(marked)
    alone[order] = marked
    return alone


def _columns(ds: xr.Dataset) -> npt.NDArray[np.int64]:
    return np.stack([ds[name].to_numpy().astype(np.int64) for name in ("frame_index", "y", "x")])


def _sorted(rows: npt.NDArray[np.int64]) -> bool:
    frame_step, y_step = np.diff(rows[0]), np.diff(rows[1])
    return bool(((frame_step > 0) | ((frame_step == 0) & (y_step >= 0))).all())


def _as_array(alone: npt.NDArray[np.bool_]) -> xr.DataArray:
    return xr.DataArray(alone, dims="cluster", name="isolated", attrs={"long_name": "no other cluster near"})


@njit(nogil=True)
def _mark_neighbours(frame: Indices, y: Indices, x: Indices, radius: int, alone: npt.NDArray[np.bool_]) -> None:
    """Set `alone` to False for both of each pair of neighbours; rows are sorted by (frame, y)."""
    n = len(frame)
    for i in range(n):
        j = i + 1
        while j < n and frame[j] == frame[i] and y[j] - y[i] <= radius:
            if abs(x[j] - x[i]) <= radius:
                alone[i] = False
                alone[j] = False
            j += 1
