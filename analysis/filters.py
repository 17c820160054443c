"""Which clusters to look at: each function says it of every cluster, bool (cluster), lazily when the dataset is."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import windows
from analysis.arguments import number, pixel_map, require_shape_of
from analysis.columns import WINDOW, per_cluster, require_on

Flags = npt.NDArray[np.bool_]
Range = slice | tuple[int, int]
_MASK_BITS = 0xFFFF


def in_roi(ds: xr.Dataset, y: Range | None, x: Range | None) -> xr.DataArray | None:
    """Centres within rows `y` and columns `x`, each half-open; None when there is nothing to compare.

    Raises:
        ValueError: A range that is none, or none of the detector's.
    """
    inside = None
    shape = ds.attrs.get("frame_shape", (None, None))
    for name, span, side in zip(("y", "x"), (y, x), shape, strict=True):
        start, stop = _bounds(name, span)
        if side is not None and start is not None and start >= side:
            raise ValueError(f"{name} is {span}, beyond the detector's {int(side)} pixels along {name}.")
        for condition in (
            None if start is None else ds[name] >= start,
            None if stop is None else ds[name] < stop,
        ):
            if condition is not None:
                inside = condition if inside is None else inside & condition
    return inside


def off_mask(ds: xr.Dataset, mask: npt.ArrayLike | xr.DataArray, touching: bool) -> xr.DataArray:
    """Centres, or with `touching` whole windows, off the masked pixels of a map (y, x).

    Masked is True, or as in NeXus' pixel_mask any of the low 16 bits set.

    Raises:
        ValueError: No such map, or, when it is computed, a cluster beyond it.
    """
    values = pixel_map(mask)
    if values.ndim != 2 or values.dtype.kind not in "iub":
        raise ValueError(f"mask is {values.dtype} of shape {values.shape}; it must be bool or NeXus bits, (y, x).")
    require_shape_of(ds, "mask", values.shape)
    bad = values if values.dtype == bool else (values.astype(np.int64) & _MASK_BITS) != 0
    if touching:
        bad = _spread(bad, ds["signal"].sizes[WINDOW[0]] // 2, ds["signal"].sizes[WINDOW[1]] // 2)
    return bool_per_cluster(partial(_good, ~bad), [ds["y"], ds["x"]])


def off_edges(ds: xr.Dataset, shape: tuple[int, int]) -> xr.DataArray:
    """Windows that lie wholly on a detector of `shape` (y, x)."""
    half_y, half_x = (ds["signal"].sizes[dim] // 2 for dim in WINDOW)
    inside = in_roi(ds, (half_y, shape[0] - half_y), (half_x, shape[1] - half_x))
    assert inside is not None
    return inside


def above_noise(ds: xr.Dataset, n: float, noise: npt.NDArray[np.float64]) -> xr.DataArray:
    """Centre above n, largest 2×2 above 2n, and sum above √(pixels)·n (3n at 3×3) times the central pixel's noise."""
    windows.require_3x3("the noise cut", tuple(ds["signal"].sizes[dim] for dim in WINDOW))
    return bool_per_cluster(partial(_above_noise, np.asarray(n * noise)), [ds["signal"], ds["y"], ds["x"]])


def of_one_photon(ds: xr.Dataset, outside: float, n: float, noise: npt.NDArray[np.float64]) -> xr.DataArray:
    """Outside the largest 2×2 no more than the share `outside` of the sum and `n` times the noise there."""
    windows.require_3x3("no_pile_up()", tuple(ds["signal"].sizes[dim] for dim in WINDOW))
    return bool_per_cluster(partial(_of_one_photon, outside, n, noise), [ds["signal"], ds["y"], ds["x"]])


def bool_per_cluster(function: Any, columns: list[xr.DataArray]) -> xr.DataArray:
    """`function`'s answer for each cluster."""
    found: xr.DataArray = per_cluster(function, columns, (np.bool_,))
    return found


def _bounds(name: str, span: Range | None) -> tuple[int | None, int | None]:
    if span is None:
        return None, None
    refusal = ValueError(f"{name} is {span}; it must be (first, end), the end not included, or a slice of step 1.")
    try:
        start, stop, step = (span.start, span.stop, span.step) if isinstance(span, slice) else (*span, None)
        given = [number(name, bound) for bound in (start, stop) if bound is not None]
    except (TypeError, ValueError):
        raise refusal from None
    if step not in (None, 1) or given != sorted(given):
        raise refusal
    if any(bound < 0 for bound in given):
        raise ValueError(f"{name} is {span}; pixels are counted from 0, and not from the other end.")
    return start, stop


def _spread(bad: Flags, half_y: int, half_x: int) -> Flags:
    """Every pixel whose window holds a bad one."""
    out = np.zeros_like(bad)
    height, width = bad.shape
    for dy in range(-half_y, half_y + 1):
        for dx in range(-half_x, half_x + 1):
            to_y, to_x = slice(max(0, dy), height + min(0, dy)), slice(max(0, dx), width + min(0, dx))
            from_y, from_x = slice(max(0, -dy), height - max(0, dy)), slice(max(0, -dx), width - max(0, dx))
            out[to_y, to_x] |= bad[from_y, from_x]
    return out


def _good(good: Flags, y: npt.NDArray[Any], x: npt.NDArray[Any]) -> Flags:
    require_on(good.shape, y, x)
    return np.asarray(good[y, x])


def _above_noise(
    limit: npt.NDArray[np.float64], signal: npt.NDArray[Any], y: npt.NDArray[Any], x: npt.NDArray[Any]
) -> Flags:
    if limit.ndim:
        require_on(limit.shape, y, x)
        return windows.above_noise(signal, y, x, limit)
    nowhere = np.zeros(len(signal), np.uint8)
    return windows.above_noise(signal, nowhere, nowhere, limit.reshape(1, 1))


def _of_one_photon(
    outside: float,
    n: float,
    noise: npt.NDArray[np.float64],
    signal: npt.NDArray[Any],
    y: npt.NDArray[Any],
    x: npt.NDArray[Any],
) -> Flags:
    total = windows.sums(signal)
    rest = total - windows.largest_2x2(signal)[0]
    allowed = outside * total + n * np.sqrt(np.prod(signal.shape[1:]) - 4) * noise_at(noise, y, x)
    return np.asarray(rest <= allowed, np.bool_)


def noise_at(noise: npt.NDArray[np.float64], y: npt.NDArray[Any], x: npt.NDArray[Any]) -> Any:
    """The noise of each cluster's central pixel, of a map (y, x) or one number."""
    if noise.ndim == 0:
        return noise
    require_on(noise.shape, y, x)
    return noise[y, x]
