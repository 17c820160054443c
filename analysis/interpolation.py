"""Where within a pixel a photon fell, told from how its charge is shared.

Photons of a flat field fall evenly everywhere. So the share of them with a smaller eta is the place within the pixel,
in pixels: the cumulative distribution of eta maps eta to position. Two ways to do so in two dimensions:

    marginal     u = F(eta_x), v = G(eta_y): each axis by itself.
    rosenblatt   u = F(eta_x), v = G(eta_y | eta_x): the conditional distribution makes u and v independent and even
                 also where eta_x and eta_y depend on one another (M. Rosenblatt, Ann. Math. Statist. 23, 470, 1952).

For the 2×2 etas (u, v) is counted from the centre of the lower pixel of the two that are compared, for the 3×3 ones
from the lower edge of the central pixel. The distributions depend on the energy (noise matters more to faint photons),
so they may be learned in bins of it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.adding_up import add_up_in_place
from analysis.arguments import whole
from analysis.columns import per_cluster
from analysis.compiled import Kernel
from analysis.eta import EtaKind, etas, is_2x2, require_kind

Method = Literal["marginal", "rosenblatt"]
"""How two dimensions are treated."""

LEARNING_RANGES = {"2x2": (-0.5, 1.5), "full_2x2": (-0.5, 1.5), "3x3": (-1.0, 1.0), "cross_3x3": (-1.0, 1.0)}
LEARNING_BINS = 400

# Columns of eta_x are taken together until they hold this share of the photons: with fewer the conditional
# distributions are noisy, with more they are smeared out over u.
_SHARE_OF_A_COLUMN = 1 / 100

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A map from eta to the place within a pixel, learned from photons of a flat field.

    Attributes:
        kind: Which eta.
        method: marginal or rosenblatt.
        limits: The lowest and highest eta of the bins.
        energy_edges: (energy + 1), ADU; from -∞ to ∞ where the energy is not looked at.
        u: (energy, bin + 1) cumulative distribution of eta_x at the edges of the bins.
        v: (energy, column, bin + 1) of eta_y, for each column of eta_x; one column if marginal.
        column: (energy, bin) which column of `v` a bin of eta_x belongs to.
    """

    kind: EtaKind
    method: Method
    limits: tuple[float, float]
    energy_edges: Floats
    u: Floats
    v: Floats
    column: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        """What it was learned from, without the tables."""
        low, high = self.limits
        bins = f"{self.column.shape[1]} bins of eta from {low:g} to {high:g}"
        energies = ", ".join(f"{edge:g}" for edge in self.energy_edges)
        apart = f", energies {energies} ADU" if np.isfinite(self.energy_edges).all() else ""
        return f"<Interpolation: {self.kind}, {self.method}, {bins}{apart}>"

    @staticmethod
    def of(histogram: xr.DataArray, method: Method = "rosenblatt") -> "Interpolation":
        """Learn it from a histogram of eta, as `ds.photons.eta_histogram` makes it.

        Raises:
            ValueError: A method that there is not, no such histogram, or an energy bin without clusters.
        """
        if method not in get_args(Method):
            raise ValueError(f"method is {method!r}; it must be one of {', '.join(get_args(Method))}.")
        if "eta_range" not in histogram.attrs or histogram.dims[-2:] != ("eta_y", "eta_x"):
            raise ValueError("This is no histogram of eta; ds.photons.eta_histogram() makes one.")
        cube = histogram.to_numpy().reshape(-1, histogram.sizes["eta_y"], histogram.sizes["eta_x"])
        edges = np.asarray(histogram.attrs.get("energy_edges", [-np.inf, np.inf]), np.float64)
        if (empty := cube.sum(axis=(1, 2)) == 0).any():
            at = int(np.argmax(empty))
            if not np.isfinite(edges).all():
                raise ValueError("No cluster to learn from has an eta; give more clusters, or fewer filters.")
            raise ValueError(
                f"No cluster to learn from has an energy of {edges[at]:g} to {edges[at + 1]:g} ADU; "
                "choose other energy_bins."
            )
        columns = np.stack([_columns(counts.sum(axis=0), method) for counts in cube])
        v = np.zeros((len(cube), int(columns.max()) + 1, cube.shape[1] + 1))
        for e, counts in enumerate(cube):
            for c in range(int(columns[e].max()) + 1):
                v[e, c] = _cumulative(counts[:, columns[e] == c].sum(axis=1))
        u = np.stack([_cumulative(counts.sum(axis=0)) for counts in cube])
        low, high = (float(limit) for limit in histogram.attrs["eta_range"])
        return Interpolation(histogram.attrs["eta"], method, (low, high), edges, u, v, columns)


def positions(ds: xr.Dataset, interpolation: Interpolation) -> xr.Dataset:
    """Where each photon fell, `y` and `x` float64 (cluster), in pixels; lazy when the dataset is.

    Pixel (y, x) covers y ± ½ and x ± ½. NaN for energies it was not learned for, and where there is no eta.

    Raises:
        ValueError: No interpolation, or windows below 3×3.
    """
    if not isinstance(interpolation, Interpolation):
        raise ValueError(f"This is a {type(interpolation).__name__}; give what photons.interpolation() returns.")
    require_kind(ds, interpolation.kind)
    columns = [ds["signal"], ds["y"], ds["x"]]
    y, x = per_cluster(partial(_positions, interpolation=interpolation), columns, (np.float64, np.float64))
    return xr.Dataset(
        {
            "y": y.assign_attrs(long_name="interpolated row", units="pixel"),
            "x": x.assign_attrs(long_name="interpolated column", units="pixel"),
        },
        attrs={"eta": interpolation.kind, "method": interpolation.method},
    )


def super_resolved(
    ds: xr.Dataset, interpolation: Interpolation, factor: int, shape: tuple[int, int], keep: xr.DataArray | None
) -> xr.DataArray:
    """Count the photons in each `factor`-th part of a pixel's side, uint32 (y, x).

    Raises:
        ValueError: `factor` below 1.
    """
    factor = whole("factor", factor, 1)
    counts = np.zeros((shape[0] * factor, shape[1] * factor), np.uint32)
    missed = np.zeros(1, np.int64)
    at = positions(ds, interpolation)

    def add(counts: npt.NDArray[Any], y: Floats, x: Floats, keep: npt.NDArray[np.bool_] | None = None) -> None:
        if len(y):
            _fill(y, x, np.empty(0, np.bool_) if keep is None else keep, factor, counts, missed)

    add_up_in_place(add, counts, [at["y"], at["x"], *([] if keep is None else [keep])])
    coords = {
        name: xr.Variable(name, (np.arange(side * factor) + 0.5) / factor - 0.5, {"long_name": what, "units": "pixel"})
        for name, what, side in zip(("y", "x"), ("row", "column"), shape, strict=True)
    }
    attrs = {
        "long_name": f"photons in 1⁄{factor} × 1⁄{factor} pixel",
        "units": "count",
        "eta": interpolation.kind,
        "method": interpolation.method,
        "outside": int(missed[0]),
    }
    return xr.DataArray(counts, coords=coords, dims=("y", "x"), name="super_resolved", attrs=attrs)


def _cumulative(counts: npt.NDArray[Any]) -> Floats:
    total = np.concatenate([[0], np.cumsum(counts)])
    return np.asarray(total / total[-1], np.float64)


def _columns(counts: npt.NDArray[Any], method: Method) -> npt.NDArray[np.int64]:
    """Which column each bin of eta_x belongs to: neighbours together, each column with enough photons."""
    if method == "marginal":
        return np.zeros(len(counts), np.int64)
    enough = counts.sum() * _SHARE_OF_A_COLUMN
    columns = np.zeros(len(counts), np.int64)
    column, filled = 0, 0
    for place, count in enumerate(counts):
        if filled >= enough:
            column, filled = column + 1, 0
        columns[place] = column
        filled += int(count)
    if filled < enough and column:  # The rest joins the one before.
        columns[columns == column] -= 1
    return columns


def _positions(
    signal: npt.NDArray[Any], y: npt.NDArray[Any], x: npt.NDArray[Any], interpolation: Interpolation
) -> tuple[Floats, Floats]:
    eta_y, eta_x, corner, energy = etas(signal, interpolation.kind)
    if len(y):
        low, high = interpolation.limits
        table = (interpolation.energy_edges, interpolation.u, interpolation.v, interpolation.column)
        _interpolate(eta_y, eta_x, corner, energy, y, x, is_2x2(interpolation.kind), low, high, *table)
    return eta_y, eta_x


@Kernel
def _interpolate(
    eta_y: Any,
    eta_x: Any,
    corner: Any,
    energy: Any,
    y: Any,
    x: Any,
    square: Any,
    low: Any,
    high: Any,
    edges: Any,
    u: Any,
    v: Any,
    column: Any,
) -> Any:
    """Replace eta_y and eta_x by positions."""
    bins = column.shape[1]
    per_unit = bins / (high - low)
    n_energies = len(edges) - 1
    for i in range(len(eta_y)):
        if eta_y[i] != eta_y[i] or not edges[0] <= energy[i] < edges[n_energies]:
            eta_y[i] = eta_x[i] = np.nan
            continue
        e = 0
        while e + 1 < n_energies and energy[i] >= edges[e + 1]:
            e += 1
        at = min(max((eta_x[i] - low) * per_unit, 0.0), float(bins))
        place = min(int(at), bins - 1)
        c = column[e, place]
        along_x = u[e, place] + (at - place) * (u[e, place + 1] - u[e, place])
        at = min(max((eta_y[i] - low) * per_unit, 0.0), float(bins))
        place = min(int(at), bins - 1)
        along_y = v[e, c, place] + (at - place) * (v[e, c, place + 1] - v[e, c, place])
        if square:  # From the centre of the lower pixel.
            eta_x[i] = float(x[i]) - 1.0 + (corner[i] & 1) + along_x
            eta_y[i] = float(y[i]) - 1.0 + (corner[i] >> 1) + along_y
        else:  # From the lower edge of the central pixel.
            eta_x[i] = float(x[i]) - 0.5 + along_x
            eta_y[i] = float(y[i]) - 0.5 + along_y


@Kernel
def _fill(y: Any, x: Any, keep: Any, factor: Any, counts: Any, missed: Any) -> Any:
    height, width = counts.shape
    for i in range(len(y)):
        if len(keep) and not keep[i]:
            continue
        if y[i] != y[i]:
            missed[0] += 1
            continue
        row, column = int(np.floor((y[i] + 0.5) * factor)), int(np.floor((x[i] + 0.5) * factor))
        if 0 <= row < height and 0 <= column < width:
            counts[row, column] += 1
        else:
            missed[0] += 1
