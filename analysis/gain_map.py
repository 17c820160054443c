"""The gain of each pixel, from the peak in each pixel's spectrum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import peak_kernel as kernel
from analysis.line_fits import PeakModel, Ratio, Shape, bin_edges, fit_line, parameter_attrs, with_gain
from analysis.peak_kernel import PARAMETERS
from analysis.xray_lines import KLines

OK, TOO_FEW, NOT_CONVERGED, AT_A_LIMIT = range(4)
FLAGS = {
    "long_name": "outcome of the pixel's fit",
    "flag_values": [OK, TOO_FEW, NOT_CONVERGED, AT_A_LIMIT],
    "flag_meanings": "ok too_few_clusters not_converged at_a_limit",
}
_FITTED_IN_PIXELS = ("counts", "position", "sigma")
_PIXELS_AT_ONCE = 4096
# The spread of the gains widens the peak of the whole detector; a pixel may lie further out than most.
_EXTRA_REACH = 1.0

Floats = npt.NDArray[np.float64]


def gain_map(
    spectra: xr.DataArray,
    lines: KLines | str,
    shape: Shape = "step",
    limits: tuple[float, float] | None = None,
    ratio: Ratio = "known",
    free: Sequence[str] = _FITTED_IN_PIXELS,
    min_clusters: int = 30,
) -> xr.Dataset:
    """Fit the Kα and Kβ peaks of every pixel.

    First the spectrum of all pixels together is fitted, as by ``fit_line``; what a pixel's few clusters can't tell, as
    the share of clusters on the shelf, is taken from there. Then counts, position and sigma of each pixel.

    Args:
        spectra: Counts (y, x, energy), as from ``pixel_spectra``.
        lines: The element, or its lines.
        shape: As of ``fit_line``.
        limits: Fit between these energies. Left out, as ``fit_line`` would the whole, and one sigma further.
        ratio: As of ``fit_line``; ``fitted`` fits it to the whole detector.
        free: The parameters fitted in each pixel, of those the shape has; the others are the whole detector's.
        min_clusters: A pixel with fewer clusters within the limits is not fitted.

    Returns:
        Over (y, x): `gain` (ADU/keV, where energies are in ADU), `resolution` (FWHM, eV) and each free parameter, all
        with ``_error`` (standard error); `deviance` and `chi2`; `flag`: 0 ok, 1 too_few_clusters, 2 not_converged,
        3 at_a_limit (the peak went to the end of what is allowed). Flagged pixels are NaN. Also `ndf`, `line_energy`,
        and `detector_gain`, that of the whole spectrum.

    Raises:
        ValueError: The spectrum of all pixels has no peak, or arguments that make no sense.
    """
    if spectra.dims != ("y", "x", "energy"):
        raise ValueError(f"The spectra have the dimensions {spectra.dims}; they must be y, x, energy.")
    model = PeakModel.of(lines, shape, ratio, background=False)
    if unknown := [name for name in free if name not in model.free]:
        raise ValueError(
            f"{', '.join(unknown)} can't be free with the shape {shape!r}; it has {', '.join(model.free)}."
        )
    if not set(free) >= {"counts", "position"}:
        raise ValueError("counts and position must be free: they are what is fitted in a pixel.")
    whole = fit_line(spectra.sum(("y", "x"), keep_attrs=True), lines, shape, limits, ratio)
    first, last = limits or _wider(model, whole)
    edges, chosen = bin_edges(spectra), (spectra["energy"] >= first) & (spectra["energy"] <= last)
    inside = np.flatnonzero(chosen.to_numpy())
    edges = edges[inside[0] : inside[-1] + 2]
    counts = spectra.to_numpy()[:, :, inside[0] : inside[-1] + 1].reshape(-1, len(inside))
    fits = _fit_pixels(model, whole, edges, counts, [name for name in PARAMETERS if name in free], min_clusters)
    return _as_maps(fits, spectra, whole, model)


def _wider(model: PeakModel, whole: xr.Dataset) -> tuple[float, float]:
    first, last = model.reach(float(whole["position"]), float(whole["sigma"]))
    return first - _EXTRA_REACH * float(whole["sigma"]), last + _EXTRA_REACH * float(whole["sigma"])


class _Fits:
    """What is found, pixel by pixel, with the names of the parameters that were free."""

    def __init__(self, n: int, free: list[str], n_bins: int) -> None:
        self.free = free
        self.ndf = n_bins - len(free)
        self.values = np.full((n, len(free)), np.nan)
        self.errors = np.full((n, len(free)), np.nan)
        self.goodness = np.full((n, 2), np.nan)
        self.flag = np.full(n, TOO_FEW, np.uint8)


def _fit_pixels(
    model: PeakModel, whole: xr.Dataset, edges: Floats, counts: npt.NDArray[np.uint32], free: list[str], least: int
) -> _Fits:
    fits = _Fits(len(counts), free, len(edges) - 1)
    places = np.array([PARAMETERS.index(name) for name in free], np.int64)
    common = np.array([float(whole[name]) if name in whole else 0.0 for name in PARAMETERS])
    common[kernel.RATIO] = float(whole["ratio"]) if "ratio" in whole else model.ratio
    width = edges[1] - edges[0]
    box = min(2 * int(common[kernel.SIGMA] / width) + 1, len(edges) - 1)
    for start in range(0, len(counts), _PIXELS_AT_ONCE):
        part = slice(start, start + _PIXELS_AT_ONCE)
        block = counts[part].astype(np.float64)
        total = block.sum(axis=1)
        enough = np.flatnonzero(total >= max(least, 1))
        if not len(enough):
            continue
        block, total = block[enough], total[enough]
        parameters = np.tile(common, (len(block), 1))
        parameters[:, kernel.POSITION] = _highest(block, edges, box)
        parameters[:, kernel.COUNTS] *= total / float(whole["fitted"].sum())
        limits = model.limits(edges, float(total.max()))
        np.clip(parameters[:, places], *limits[places].T, out=parameters[:, places])
        covariance, goodness = np.empty((len(block), 8, 8)), np.empty((len(block), 2))
        status = np.empty(len(block), np.int64)
        kernel.fit_spectra(edges, block, parameters, places, limits, model.second, covariance, goodness, status)
        variance = covariance[:, places, places]
        flag = np.where(status == kernel.CONVERGED, OK, NOT_CONVERGED)
        must = [i for i, name in enumerate(free) if name in _FITTED_IN_PIXELS]
        flag[(flag == OK) & np.isnan(variance[:, must]).any(axis=1)] = AT_A_LIMIT
        good = flag == OK
        rows = start + enough
        fits.flag[rows] = flag
        fits.values[rows[good]] = parameters[good][:, places]
        fits.errors[rows[good]] = np.sqrt(variance[good])
        fits.goodness[rows[good]] = goodness[good]
    return fits


def _highest(counts: Floats, edges: Floats, box: int) -> Floats:
    """Where each spectrum (spectrum, bin) is highest, averaged over `box` bins."""
    n = counts.shape[1]
    sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
    left = np.arange(n - box + 1)
    highest = np.argmax(sums[:, left + box] - sums[:, left], axis=1)
    return np.asarray((edges[highest] + edges[highest + box]) / 2, np.float64)


def _as_maps(fits: _Fits, spectra: xr.DataArray, whole: xr.Dataset, model: PeakModel) -> xr.Dataset:
    shape = spectra.shape[:2]
    units = str(spectra["energy"].attrs.get("units", "ADU"))
    maps: dict[str, xr.Variable] = {}
    for i, name in enumerate(fits.free):
        attrs = parameter_attrs(name, units)
        maps[name] = xr.Variable(("y", "x"), fits.values[:, i].reshape(shape), attrs)
        error = {**attrs, "long_name": f"standard error of: {attrs['long_name']}"}
        maps[f"{name}_error"] = xr.Variable(("y", "x"), fits.errors[:, i].reshape(shape), error)
    for i, (name, meaning) in enumerate((("deviance", "Poisson deviance"), ("chi2", "Pearson's chi²"))):
        attrs = {"long_name": meaning}
        maps[name] = xr.Variable(("y", "x"), fits.goodness[:, i].reshape(shape), attrs)
    maps["ndf"] = xr.Variable((), fits.ndf, {"long_name": "degrees of freedom"})
    maps["flag"] = xr.Variable(("y", "x"), fits.flag.reshape(shape), FLAGS)
    if "sigma" not in fits.free:
        maps |= {name: whole[name].variable for name in ("sigma", "sigma_error")}
    coords = {name: spectra[name] for name in ("y", "x") if name in spectra.coords}
    found = xr.Dataset(maps, coords, {"title": "gain map", "shape": model.shape})
    assert model.lines is not None
    detector = whole["gain"].assign_attrs(long_name="gain of the whole detector")
    return with_gain(found, model.lines).assign(detector_gain=detector.drop_vars(detector.coords))
