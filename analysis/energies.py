"""The energy of each cluster."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import windows
from analysis.gain import EnergyScale

Kind = Literal["sum", "largest_2x2", "centre", "brightest"]
"""Which pixels of the window count."""

NAMES = {
    "sum": "cluster energy",
    "largest_2x2": "energy in the largest 2×2",
    "centre": "energy in the central pixel",
    "brightest": "energy in the brightest pixels",
}
WINDOW = ("cluster_y", "cluster_x")


def energy(ds: xr.Dataset, kind: Kind = "sum", n: int | None = None, scale: EnergyScale | None = None) -> xr.DataArray:
    """The energy of each cluster, float64 (cluster), ADU, or keV with a `scale`; lazy when the dataset is.

    Args:
        ds: Clusters with `signal`; with maps in `scale` also `y` and `x`.
        kind: The sum over the window, the largest 2×2 that holds the centre, the centre, the `n` brightest pixels.
        n: How many for "brightest".
        scale: From ADU to keV.

    Raises:
        ValueError: A kind that is none of these, or a window too small for it.
    """
    choose = _chooser(kind, n, tuple(ds["signal"].sizes[dim] for dim in WINDOW))
    columns = [ds["signal"]]
    if scale is not None and scale.shape is not None:
        columns += [ds["y"], ds["x"]]
    found: xr.DataArray = per_cluster(partial(_energies, choose=choose, scale=scale), columns)
    name = NAMES[kind] if kind != "brightest" else f"energy in the {n} brightest pixels"
    found = found.rename("energy").assign_attrs(long_name=name, units=unit(scale))
    return found


def unit(scale: EnergyScale | None) -> str:
    """The unit of energies on this scale."""
    return "ADU" if scale is None else "keV"


def per_cluster(
    function: Callable[..., Any], columns: list[xr.DataArray], dtypes: tuple[npt.DTypeLike, ...] = (np.float64,)
) -> Any:
    """Apply `function` to the arrays of `columns`, a block at a time when they are lazy.

    Returns:
        One array (cluster) for each of `dtypes`; without their attributes.
    """
    found = xr.apply_ufunc(
        function,
        *[column.reset_coords(drop=True).drop_vars(WINDOW, errors="ignore") for column in columns],
        input_core_dims=[WINDOW if WINDOW[0] in column.dims else () for column in columns],
        output_core_dims=[()] * len(dtypes),
        dask="parallelized",
        output_dtypes=list(dtypes),
        dask_gufunc_kwargs={"allow_rechunk": True},
        keep_attrs=False,
    )
    return found


def _chooser(
    kind: str, n: int | None, window: tuple[int, ...]
) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]]:
    if kind not in get_args(Kind):
        raise ValueError(f"energy is {kind!r}; it must be one of {', '.join(get_args(Kind))}.")
    if kind == "brightest":
        if n is None:
            raise ValueError("How many of the brightest pixels? Give n.")
        windows.brightest(np.zeros((0, *window)), n)  # refuses an n that makes no sense now, not when it is computed
        return partial(windows.brightest, n=n)
    if n is not None:
        raise ValueError(f"n is for energy='brightest', not for {kind!r}.")
    if kind == "largest_2x2":
        windows.require_3x3("the largest 2×2", window)
        return _largest_2x2
    return windows.sums if kind == "sum" else windows.centres


def _largest_2x2(signal: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return windows.largest_2x2(signal)[0]


def _energies(
    signal: npt.NDArray[Any],
    y: npt.NDArray[Any] | None = None,
    x: npt.NDArray[Any] | None = None,
    *,
    choose: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]],
    scale: EnergyScale | None,
) -> npt.NDArray[np.float64]:
    if scale is None:
        return choose(signal)
    if y is None or x is None:
        return (choose(signal) - scale.offset) / scale.gain
    factors, shifts = np.broadcast_arrays(scale.factors(), scale.shifts())
    require_on(shifts.shape, y, x)
    energies = choose(windows.scaled(signal, y, x, np.ascontiguousarray(factors)))
    return np.asarray(energies - shifts[y, x])


def require_on(shape: tuple[int, ...], y: npt.NDArray[Any], x: npt.NDArray[Any]) -> None:
    """Refuse clusters beyond a map of `shape` (y, x).

    Raises:
        ValueError: There are some.
    """
    if len(y) and (y.max() >= shape[0] or x.max() >= shape[1]):
        raise ValueError(f"A cluster lies at ({y.max()}, {x.max()}), beyond the shape {shape} of the map.")
