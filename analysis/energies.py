"""The energy of each cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import windows
from analysis.arguments import whole
from analysis.columns import WINDOW, per_cluster, require_on
from analysis.gain import EnergyScale

Kind = Literal["sum", "largest_2x2", "centre", "brightest"]
"""Which pixels of the window count."""

Floats = npt.NDArray[np.float64]

NAMES = {
    "sum": "cluster energy",
    "largest_2x2": "energy in the largest 2×2",
    "centre": "energy in the central pixel",
    "brightest": "energy in the brightest pixels",
}


@dataclass(frozen=True)
class Energies:
    """The energy of each cluster, not computed yet.

    Attributes:
        function: Makes energies, float64 (cluster), of a block of the columns.
        columns: `signal`, with maps of the gain also `y` and `x`.
        long_name: What a plot calls them.
        unit: ADU or keV.
    """

    function: Callable[..., Floats]
    columns: tuple[xr.DataArray, ...]
    long_name: str
    unit: str

    @staticmethod
    def of(ds: xr.Dataset, kind: Kind = "sum", n: int | None = None, scale: EnergyScale | None = None) -> "Energies":
        """Say which energy.

        Args:
            ds: Clusters with `signal`; with maps in `scale` also `y` and `x`.
            kind: The sum over the window, the largest 2×2 that holds the centre, the centre, the `n` brightest pixels.
            n: How many for "brightest".
            scale: From ADU to keV.

        Raises:
            ValueError: A kind that is none of these, or a window too small for it.
        """
        choose = _chooser(kind, n, tuple(ds["signal"].sizes[dim] for dim in WINDOW))
        name = NAMES[kind] if kind != "brightest" else f"energy in the {n} brightest pixels"
        if scale is None:
            return Energies(choose, (ds["signal"],), name, "ADU")
        if scale.shape is None:
            return Energies(partial(_converted, choose, scale.gain, scale.offset), (ds["signal"],), name, "keV")
        function = partial(_converted_by_maps, choose, *scale.maps())
        return Energies(function, (ds["signal"], ds["y"], ds["x"]), name, "keV")

    def values(self) -> xr.DataArray:
        """Compute them, float64 (cluster); lazy when the dataset is."""
        found: xr.DataArray = per_cluster(self.function, self.columns)
        return found.rename("energy").assign_attrs(long_name=self.long_name, units=self.unit)


def _chooser(kind: str, n: int | None, window: tuple[int, ...]) -> Callable[[npt.NDArray[Any]], Floats]:
    if kind not in get_args(Kind):
        raise ValueError(f"energy is {kind!r}; it must be one of {', '.join(get_args(Kind))}.")
    if kind == "brightest":
        if n is None:
            raise ValueError("How many of the brightest pixels? Give n.")
        n = whole("n", n, 0)
        windows.brightest(np.zeros((0, *window)), n)  # refuses an n that makes no sense now, not when it is computed
        return partial(windows.brightest, n=n)
    if n is not None:
        raise ValueError(f"n is for energy='brightest', not for {kind!r}.")
    if kind == "centre":
        windows.require_centre("the central pixel", window)
    if kind == "largest_2x2":
        windows.require_3x3("the largest 2×2", window)
        return _largest_2x2
    return windows.sums if kind == "sum" else windows.centres


def _largest_2x2(signal: npt.NDArray[Any]) -> Floats:
    return windows.largest_2x2(signal)[0]


def _converted(
    choose: Callable[[npt.NDArray[Any]], Floats], gain: float | Floats, offset: float | Floats, signal: npt.NDArray[Any]
) -> Floats:
    return np.asarray((choose(signal) - offset) / gain)


def _converted_by_maps(
    choose: Callable[[npt.NDArray[Any]], Floats],
    factors: Floats,
    shifts: Floats,
    signal: npt.NDArray[Any],
    y: npt.NDArray[Any],
    x: npt.NDArray[Any],
) -> Floats:
    require_on(shifts.shape, y, x)
    return np.asarray(choose(windows.scaled(signal, y, x, factors)) - shifts[y, x])
