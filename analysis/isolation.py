"""Which clusters stand alone."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.columns import per_cluster
from analysis.compiled import Kernel

Codes = npt.NDArray[np.int64]


def isolated(ds: xr.Dataset, radius: int, keep: xr.DataArray | None, most_in_a_frame: int) -> xr.DataArray:
    """Say of each cluster whether no other one of its frame lies within `radius` pixels, along rows and columns.

    Two clusters are neighbours when both |Δy| and |Δx| are at most `radius`, so windows of n×n pixels around isolated
    clusters share no pixel from radius n - 1 on.

    Args:
        ds: Clusters with `frame_index`, `y`, `x`; in any order when in memory, frame by frame (as written) when lazy.
        radius: Pixels, at least 0.
        keep: bool (cluster): those that count; others are nobody's neighbours, and not isolated.
        most_in_a_frame: No frame has more clusters: lazy blocks overlap by so many, so that frames are seen whole.

    Returns:
        bool (cluster); lazy when the dataset is.

    Raises:
        ValueError: When it is computed, lazy clusters in another order, or negative positions.
    """
    columns = [ds["frame_index"], ds["y"], ds["x"], *([] if keep is None else [keep])]
    codes = per_cluster(_encoded, columns, (np.int64,))
    if codes.chunks is None:
        return xr.DataArray(_alone(codes.to_numpy(), radius), dims="cluster")
    alone = codes.data.map_overlap(
        partial(_alone_in_block, radius=radius),
        depth={0: most_in_a_frame},
        boundary="none",
        trim=True,
        dtype=bool,
        meta=np.empty(0, bool),
    )
    return xr.DataArray(alone.rechunk(codes.data.chunks), dims="cluster")


def _encoded(
    frame: npt.NDArray[Any], y: npt.NDArray[Any], x: npt.NDArray[Any], keep: npt.NDArray[np.bool_] | None = None
) -> Codes:
    """Frame, row and column in one number that sorts like them; -1 - number for those that do not count."""
    if len(y) and max(int(y.max()), int(x.max())) >= 1 << 16:
        raise ValueError("isolated() takes detectors of up to 65536 rows and columns; this one has more.")
    if any(len(given) and given.dtype.kind == "i" and given.min() < 0 for given in (frame, y, x)):
        raise ValueError("isolated() met a negative frame_index, y or x; give clusters that lie on the detector.")
    if len(frame) and int(frame.max()) >= 1 << 31:
        raise ValueError("isolated() takes datasets of up to 2147483648 frames; this one has more: choose some first.")
    code = (frame.astype(np.int64) << 32) | (y.astype(np.int64) << 16) | x.astype(np.int64)
    return code if keep is None else np.where(keep, code, -1 - code)


def _alone_in_block(codes: Codes, radius: int) -> npt.NDArray[np.bool_]:
    frames = np.where(codes < 0, -1 - codes, codes) >> 32
    if (np.diff(frames) < 0).any():
        raise ValueError(
            "The clusters are not in the order of their frames, which isolated() needs of a lazy dataset; "
            "load it first, or sort it: ds.sortby('frame_index')."
        )
    return _alone(codes, radius)


def _alone(codes: Codes, radius: int) -> npt.NDArray[np.bool_]:
    counting = np.flatnonzero(codes >= 0)
    chosen = codes[counting]
    order = None if (np.diff(chosen) >= 0).all() else np.argsort(chosen, kind="stable")
    alone = np.ones(len(chosen), np.bool_)
    if len(chosen):
        _mark_neighbours(chosen if order is None else chosen[order], radius, alone)
    out = np.zeros(len(codes), np.bool_)
    out[counting if order is None else counting[order]] = alone
    return out


@Kernel
def _mark_neighbours(codes: Any, radius: Any, alone: Any) -> Any:
    """Set `alone` to False for both of each pair of neighbours; codes ascend."""
    n = len(codes)
    for i in range(n):
        frame, y, x = codes[i] >> 32, (codes[i] >> 16) & 0xFFFF, codes[i] & 0xFFFF
        j = i + 1
        while j < n and codes[j] >> 32 == frame and ((codes[j] >> 16) & 0xFFFF) - y <= radius:
            if abs((codes[j] & 0xFFFF) - x) <= radius:
                alone[i] = False
                alone[j] = False
            j += 1
