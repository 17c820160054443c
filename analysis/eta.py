"""How a photon's charge is split between neighbouring pixels: eta, from which its place within a pixel follows.

With q the signal in a window, and 2×2 the largest of the four squares that hold the central pixel (columns l, r and
rows t, b in ascending order):

    2x2        eta_x = q_r / (q_l + q_r) in the centre's row, eta_y = q_b / (q_t + q_b) in the centre's column
    full_2x2   eta_x = (right column) / (2×2), eta_y = (higher row) / (2×2)
    3x3        eta_x = (right column - left column) / (3×3), eta_y = (higher row - lower row) / (3×3)
    cross_3x3  eta_x = (right - left) / (left + centre + right), eta_y likewise in the centre's column

The first two run from 0 (all in the lower pixel) to 1, the others from -1 to 1 about the central pixel. Noise may
bring them a little beyond. They are those of aare: calculate_eta2, calculate_full_eta2, calculate_eta3 and
calculate_cross_eta3.
"""

import warnings
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import windows
from analysis.adding_up import add_up
from analysis.arguments import two, whole
from analysis.columns import WINDOW, per_cluster
from analysis.compiled import Kernel
from analysis.units import UnitsWarning

EtaKind = Literal["2x2", "full_2x2", "3x3", "cross_3x3"]
"""Which pixels are compared."""

Floats = npt.NDArray[np.float64]
Etas = tuple[Floats, Floats, npt.NDArray[np.uint8], Floats]

PLOT_RANGES = {"2x2": (-0.25, 1.25), "full_2x2": (-0.25, 1.25), "3x3": (-1.0, 1.0), "cross_3x3": (-1.0, 1.0)}


def eta(ds: xr.Dataset, kind: EtaKind) -> xr.Dataset:
    """The eta of each cluster along both axes, and the energy of the pixels compared; lazy when the dataset is.

    Returns:
        `eta_y`, `eta_x` float64 (cluster), NaN where the pixels compared add up to 0; `energy` float64 (cluster), ADU,
        of the 2×2 or the 3×3; `corner` uint8 (cluster), of the 2×2 kinds, which of the four squares (a CF flag).

    Raises:
        ValueError: A kind that there is not, or windows below 3×3.
    """
    require_kind(ds, kind)
    dtypes = (np.float64, np.float64, np.uint8, np.float64)
    eta_y, eta_x, corner, energy = per_cluster(partial(etas, kind=kind), [ds["signal"]], dtypes)
    found = {
        "eta_y": eta_y.assign_attrs(long_name=f"eta along rows, {kind}"),
        "eta_x": eta_x.assign_attrs(long_name=f"eta along columns, {kind}"),
        "energy": energy.assign_attrs(long_name="energy of the pixels compared", units="ADU"),
    }
    if is_2x2(kind):
        flags = {"flag_values": list(range(4)), "flag_meanings": " ".join(windows.CORNERS)}
        found["corner"] = corner.assign_attrs(long_name="corner of the largest 2×2", **flags)
    return xr.Dataset(found, attrs={"eta": kind})


def eta_histogram(
    ds: xr.Dataset,
    kind: EtaKind,
    bins: int,
    limits: tuple[float, float] | None,
    energy_edges: npt.ArrayLike | None,
    keep: xr.DataArray | None,
) -> xr.DataArray:
    """Count the clusters with each eta, int64 (eta_y, eta_x), or (energy, eta_y, eta_x) with `energy_edges`.

    Clusters beyond the limits count in the outermost bins, so that what is accumulated from them is right; those of
    other energies, and those without an eta, are the attribute `outside`.

    Raises:
        ValueError: A kind that there is not, windows below 3×3, or bins that make no sense.
    """
    require_kind(ds, kind)
    bins = whole("bins", bins, 1)
    low, high = two("range", PLOT_RANGES[kind] if limits is None else limits)
    if not np.isfinite(bins / (high - low)):
        raise ValueError(f"range is {limits}; {bins} bins of eta don't fit between them.")
    try:
        edges = np.array([-np.inf, np.inf]) if energy_edges is None else np.asarray(energy_edges, np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ValueError("energy_bins must be at least two edges in ascending order, ADU.")
    n = (len(edges) - 1) * bins * bins
    function = partial(_counted, kind, bins, low, high, edges)
    counts = add_up(function, n + 1, [ds["signal"], *([] if keep is None else [keep])])
    if energy_edges is not None and counts[n] and not counts[:n].any():
        warnings.warn(
            f"none of {counts[n]:,} clusters has {edges[0]:g} to {edges[-1]:g} ADU: energy_bins are in ADU, of the "
            "pixels compared",
            UnitsWarning,
            stacklevel=3,
        )
    grid = np.linspace(low, high, bins + 1)
    centres = (grid[:-1] + grid[1:]) / 2
    coords = {
        "eta_y": xr.Variable("eta_y", centres, {"long_name": "eta along rows"}),
        "eta_x": xr.Variable("eta_x", centres, {"long_name": "eta along columns"}),
    }
    attrs = {
        "long_name": f"clusters a bin of eta {kind}",
        "units": "count",
        "eta": kind,
        "eta_range": (low, high),
        "outside": int(counts[n]),
    }
    cube = counts[:n].reshape(len(edges) - 1, bins, bins)
    if energy_edges is None:
        return xr.DataArray(cube[0], coords=coords, dims=("eta_y", "eta_x"), name="eta_histogram", attrs=attrs)
    middle = xr.Variable("energy", (edges[:-1] + edges[1:]) / 2, {"long_name": "energy", "units": "ADU"})
    return xr.DataArray(
        cube,
        coords={"energy": middle, **coords},
        dims=("energy", "eta_y", "eta_x"),
        name="eta_histogram",
        attrs=attrs | {"energy_edges": edges.tolist()},
    )


def etas(signal: npt.NDArray[Any], kind: EtaKind) -> Etas:
    """eta_y, eta_x, corner (0 where there is none) and energy of windows (cluster, cluster_y, cluster_x)."""
    n = len(signal)
    energy, corner = windows.largest_2x2(signal) if is_2x2(kind) else (np.empty(n), np.zeros(n, np.uint8))
    eta_y, eta_x = np.empty(n), np.empty(n)
    if n:
        if is_2x2(kind):
            _eta_2x2(np.ascontiguousarray(signal), kind == "full_2x2", corner, energy, eta_y, eta_x)
        else:
            zero = np.int64(0) if signal.dtype.kind in "iub" else np.float64(0)
            _eta_3x3(np.ascontiguousarray(signal), zero, kind == "cross_3x3", energy, eta_y, eta_x)
    return eta_y, eta_x, corner, energy


def is_2x2(kind: str) -> bool:
    """Whether two columns and two rows are compared, and not three."""
    return kind.endswith("2x2")


def require_kind(ds: xr.Dataset, kind: str) -> None:
    """Refuse a kind that there is not, and windows that are too small.

    Raises:
        ValueError: Either.
    """
    if kind not in get_args(EtaKind):
        raise ValueError(f"eta is {kind!r}; it must be one of {', '.join(get_args(EtaKind))}.")
    windows.require_3x3("eta", tuple(ds["signal"].sizes[dim] for dim in WINDOW))


def _counted(
    kind: EtaKind,
    bins: int,
    low: float,
    high: float,
    edges: Floats,
    signal: npt.NDArray[Any],
    keep: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.int64]:
    eta_y, eta_x, _, energy = etas(signal, kind)
    counts = np.zeros((len(edges) - 1) * bins * bins + 1, np.int64)
    chosen = np.empty(0, np.bool_) if keep is None else keep
    _count(eta_y, eta_x, energy, chosen, edges, bins, float(low), float(high), counts)
    return counts


# np.float64, for Numba's float() leaves a float32 what it is.
@Kernel
def _eta_2x2(signal: Any, full: Any, corner: Any, energy: Any, eta_y: Any, eta_x: Any) -> Any:
    cy, cx = signal.shape[1] // 2, signal.shape[2] // 2
    for i in range(len(signal)):
        high_y, high_x = corner[i] >> 1, corner[i] & 1
        y, x = cy + high_y, cx + high_x  # of the upper row and column of the square
        if full:
            total = energy[i]
            eta_x[i] = (np.float64(signal[i, y - 1, x]) + np.float64(signal[i, y, x])) / total
            eta_y[i] = (np.float64(signal[i, y, x - 1]) + np.float64(signal[i, y, x])) / total
        else:
            eta_x[i] = np.float64(signal[i, cy, x]) / (np.float64(signal[i, cy, x - 1]) + np.float64(signal[i, cy, x]))
            eta_y[i] = np.float64(signal[i, y, cx]) / (np.float64(signal[i, y - 1, cx]) + np.float64(signal[i, y, cx]))
        if not (abs(eta_x[i]) < np.inf and abs(eta_y[i]) < np.inf):
            eta_x[i] = eta_y[i] = np.nan


@Kernel
def _eta_3x3(signal: Any, zero: Any, cross: Any, energy: Any, eta_y: Any, eta_x: Any) -> Any:
    cy, cx = signal.shape[1] // 2, signal.shape[2] // 2
    for i in range(len(signal)):
        s = signal[i]
        left = zero + s[cy - 1, cx - 1] + s[cy, cx - 1] + s[cy + 1, cx - 1]
        right = zero + s[cy - 1, cx + 1] + s[cy, cx + 1] + s[cy + 1, cx + 1]
        low = zero + s[cy - 1, cx - 1] + s[cy - 1, cx] + s[cy - 1, cx + 1]
        high = zero + s[cy + 1, cx - 1] + s[cy + 1, cx] + s[cy + 1, cx + 1]
        total = left + right + s[cy - 1, cx] + s[cy, cx] + s[cy + 1, cx]
        energy[i] = total
        if cross:
            row = zero + s[cy, cx - 1] + s[cy, cx] + s[cy, cx + 1]
            column = zero + s[cy - 1, cx] + s[cy, cx] + s[cy + 1, cx]
            eta_x[i] = (np.float64(s[cy, cx + 1]) - np.float64(s[cy, cx - 1])) / np.float64(row)
            eta_y[i] = (np.float64(s[cy + 1, cx]) - np.float64(s[cy - 1, cx])) / np.float64(column)
        else:
            eta_x[i] = np.float64(right - left) / np.float64(total)
            eta_y[i] = np.float64(high - low) / np.float64(total)
        if not (abs(eta_x[i]) < np.inf and abs(eta_y[i]) < np.inf):
            eta_x[i] = eta_y[i] = np.nan


@Kernel
def _count(
    eta_y: Any, eta_x: Any, energy: Any, keep: Any, edges: Any, bins: Any, low: Any, high: Any, counts: Any
) -> Any:
    per_unit = bins / (high - low)
    n_energies = len(edges) - 1
    for i in range(len(eta_y)):
        if len(keep) and not keep[i]:
            continue
        if eta_y[i] != eta_y[i] or not edges[0] <= energy[i] < edges[n_energies]:
            counts[len(counts) - 1] += 1
            continue
        e = 0
        while e + 1 < n_energies and energy[i] >= edges[e + 1]:
            e += 1
        y = int(min(max((eta_y[i] - low) * per_unit, 0.0), bins - 1.0))
        x = int(min(max((eta_x[i] - low) * per_unit, 0.0), bins - 1.0))
        counts[(e * bins + y) * bins + x] += 1
