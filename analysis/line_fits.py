"""Fits of one spectrum: a photon peak, or the Kα and Kβ peaks of an element, with errors and goodness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import peak_kernel as kernel
from analysis.peak_kernel import PARAMETERS
from analysis.peak_top import rough_top
from analysis.units import warn_of_calibrated
from analysis.xray_lines import KLines, k_lines

Shape = Literal["gaussian", "step", "step_tail"]
Ratio = float | Literal["known", "fitted"]

_FREE_IN = {
    "gaussian": ("counts", "position", "sigma"),
    "step": ("counts", "position", "sigma", "step"),
    "step_tail": ("counts", "position", "sigma", "step", "tail", "tail_length"),
}
# How far below the peak a fit goes, in sigma: what shared charge adds there is part of the shapes with a step only.
_REACH_BELOW = {"gaussian": 1.2, "step": 5.0, "step_tail": 8.0}
_REACH_ABOVE_ONE_LINE = 2.0
_REACH_ABOVE_K_BETA = 3.0
_FWHM = 2 * np.sqrt(2 * np.log(2))
_MEANINGS = {
    "counts": "clusters in the peak",
    "position": "centre of the peak",
    "sigma": "standard deviation of the peak",
    "background": "clusters per unit of energy everywhere",
    "step": "clusters on the shelf below the peak, from 0 on, per cluster in the peak",
    "tail": "share of the peak's clusters in its tail",
    "tail_length": "mean loss of energy in the tail",
    "ratio": "clusters in the Kβ peak per cluster in the Kα peak",
}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PeakModel:
    """What is fitted: the lines and the shape of a peak.

    Attributes:
        shape: ``gaussian``; ``step``: with the shelf of shared charge below it; ``step_tail``: with a tail besides.
        lines: The element whose Kα and Kβ are fitted together; None for one peak of no known energy.
        ratio: Kβ clusters per Kα cluster.
        free: The parameters that are fitted, in the order of ``PARAMETERS``.
    """

    shape: Shape
    lines: KLines | None
    ratio: float
    free: tuple[str, ...]

    @classmethod
    def of(cls, lines: KLines | str | None, shape: Shape, ratio: Ratio, background: bool) -> PeakModel:
        """The model that the arguments of :func:`fit_line` describe.

        Raises:
            ValueError: No such shape, element or ratio.
        """
        if shape not in get_args(Shape):
            raise ValueError(f"shape is {shape!r}; it must be one of {', '.join(get_args(Shape))}.")
        element = k_lines(lines) if isinstance(lines, str) else lines
        if isinstance(ratio, str) and ratio not in ("known", "fitted"):
            raise ValueError(f"ratio is {ratio!r}; it must be 'known', 'fitted' or Kβ clusters per Kα cluster.")
        if not isinstance(ratio, str) and not (np.isfinite(ratio) and ratio >= 0):
            raise ValueError(f"ratio is {ratio}; Kβ clusters per Kα cluster must be a finite number from 0 on.")
        free = {*_FREE_IN[shape]}
        if background:
            free.add("background")
        if element is not None and ratio == "fitted":
            free.add("ratio")
        value = 0.0 if element is None else element.beta_over_alpha if isinstance(ratio, str) else float(ratio)
        return cls(shape, element, value, tuple(name for name in PARAMETERS if name in free))

    @property
    def second(self) -> float:
        """The position of Kβ over that of Kα; 0 without lines."""
        return 0.0 if self.lines is None else self.lines.k_beta_keV / self.lines.k_alpha_keV

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The places of the free parameters among all."""
        return np.array([PARAMETERS.index(name) for name in self.free], np.int64)

    def reach(self, position: float, sigma: float) -> tuple[float, float]:
        """Where a fit of a peak found near `position` begins and ends."""
        last = position + _REACH_ABOVE_ONE_LINE * sigma
        if self.lines is not None:
            last = position * self.second + _REACH_ABOVE_K_BETA * sigma
        return position - _REACH_BELOW[self.shape] * sigma, last

    def limits(self, edges: Floats, total: float) -> Floats:
        """Lowest and highest value of each parameter, (8, 2), for a fit over `edges` with `total` clusters."""
        width, span = edges[1] - edges[0], edges[-1] - edges[0]
        # A shelf reaches from 0 to the peak, and lines have a ratio of positions: neither has a meaning below 0.
        lowest = max(edges[0], 1e-3 * width) if "step" in self.free or self.lines is not None else edges[0]
        many = 100 * (total + 10)
        bounds = {
            "counts": (0, many),
            "position": (lowest, edges[-1]),
            "sigma": (0.2 * width, span),
            "background": (0, many / width),
            "step": (0, 100),
            "tail": (0, 1),
            "tail_length": (0.2 * width, 3 * span),
            "ratio": (0, 100),
        }
        return np.array([bounds[name] for name in PARAMETERS], np.float64)

    def start(self, position: float, sigma: float, counts: float) -> Floats:
        """Where a fit begins, (8)."""
        values = {"counts": counts, "position": position, "sigma": sigma, "ratio": self.ratio}
        values["step"] = 0.1 if "step" in self.free else 0.0
        if "tail" in self.free:
            values |= {"tail": 0.1, "tail_length": 2 * sigma}
        return np.array([values.get(name, 0.0) for name in PARAMETERS])


def fit_line(
    spectrum: xr.DataArray,
    lines: KLines | str | None = None,
    shape: Shape = "step",
    limits: tuple[float, float] | None = None,
    ratio: Ratio = "known",
    background: bool = False,
) -> xr.Dataset:
    """Fit the highest peak of a spectrum by greatest Poisson likelihood.

    The model is integrated over each bin, and counts are weighted by what the model expects and not by what they are,
    so that few counts, and bins without any, pull nothing to one side. The formula of the peak is in
    ``analysis.peak_kernel``.

    Args:
        spectrum: Counts over the coordinate `energy` (bin centres; equal bins).
        lines: An element, as "Mn" for ⁵⁵Fe, or its lines: Kα and Kβ are fitted together, their positions in the ratio
            of their energies (the zero of energy is that of the pedestal). None fits one peak.
        shape: ``gaussian``, ``step`` (with the shelf that shared charge leaves below the peak), or ``step_tail``
            (with a tail besides).
        limits: Fit between these energies. Left out, around the highest peak: from 1.2, 5 or 8 sigma below it, for the
            three shapes, to 2 sigma above it, or 3 above Kβ.
        ratio: Kβ clusters per Kα cluster: a number, ``known`` for the table's, or ``fitted``.
        background: Fit a constant background too.

    Returns:
        For each fitted parameter its value and, under its name with ``_error``, its standard error, NaN where it is at
        the end of its allowed values; `covariance` of all; `deviance` (Baker and Cousins, Nucl. Instrum. Methods 221
        (1984) 437) and Pearson's `chi2`, each about `ndf` where the model is right and counts are many (at low counts
        only `chi2` is); `fitted`, the counts that the model expects, over `energy`. With lines also `line_energy`
        (keV), `gain` and `resolution` (FWHM, eV).

    Raises:
        ValueError: No peak there, or arguments that make no sense.
        UnitsWarning: (as a warning) with lines, a spectrum in keV: its gain is in keV/keV.
    """
    model = PeakModel.of(lines, shape, ratio, background)
    if model.lines is not None:
        warn_of_calibrated(_units(spectrum))
    edges, counts = _bins(spectrum)
    if limits is not None:
        edges, counts = _within(edges, counts, limits)
    top = rough_top((edges[1:] + edges[:-1]) / 2, counts)
    start = model.start(top.position, top.sigma, top.height * top.sigma * np.sqrt(2 * np.pi) / (edges[1] - edges[0]))
    if limits is None:
        edges, counts = _within(edges, counts, model.reach(top.position, top.sigma))
    if len(counts) <= len(model.free):
        raise ValueError(
            f"The peak near {top.position:.4g} {_units(spectrum)} has {len(counts)} bins within the fit's limits, and "
            f"{len(model.free)} parameters are fitted; give narrower bins or wider limits."
        )
    parameters, covariance, goodness = _fit(model, edges, counts, start, _units(spectrum))
    return _as_dataset(model, spectrum, edges, counts, parameters, covariance, goodness)


def _fit(model: PeakModel, edges: Floats, counts: Floats, start: Floats, units: str) -> tuple[Floats, Floats, Floats]:
    limits = model.limits(edges, float(counts.sum()))
    parameters = np.clip(start, limits[:, 0], limits[:, 1])[np.newaxis]
    parameters[:, [k for k in range(len(PARAMETERS)) if k not in model.places]] = start[
        [k for k in range(len(PARAMETERS)) if k not in model.places]
    ]
    covariance, goodness, status = np.empty((1, 8, 8)), np.empty((1, 2)), np.empty(1, np.int64)
    kernel.fit_spectra(
        edges, counts[np.newaxis], parameters, model.places, limits, model.second, covariance, goodness, status
    )
    where = f"between {edges[0]:.4g} and {edges[-1]:.4g} {units}"
    if status[0] != kernel.CONVERGED:
        raise ValueError(f"The fit {where} did not converge; give a simpler shape, other limits or wider bins.")
    for place in (kernel.POSITION, kernel.SIGMA):
        if np.isnan(covariance[0, place, place]):
            raise ValueError(
                f"There is no peak {where}: its {PARAMETERS[place]} went to the end of what is allowed; "
                "give other limits or wider bins."
            )
    return parameters[0], covariance[0], goodness[0]


def _as_dataset(
    model: PeakModel,
    spectrum: xr.DataArray,
    edges: Floats,
    counts: Floats,
    parameters: Floats,
    covariance: Floats,
    goodness: Floats,
) -> xr.Dataset:
    units = _units(spectrum)
    variables: dict[str, Any] = {}
    for name, place in zip(model.free, model.places, strict=True):
        attrs = parameter_attrs(name, units)
        error = {**attrs, "long_name": f"standard error of: {attrs['long_name']}"}
        variables[name] = ((), parameters[place], attrs)
        variables[f"{name}_error"] = ((), np.sqrt(covariance[place, place]), error)
    chosen = covariance[np.ix_(model.places, model.places)]
    variables["covariance"] = (("parameter", "parameter_2"), chosen, {"long_name": "covariance of the parameters"})
    variables["deviance"] = ((), goodness[0], {"long_name": "Poisson deviance"})
    variables["chi2"] = ((), goodness[1], {"long_name": "Pearson's chi²"})
    ndf = len(counts) - len(model.free)
    variables["ndf"] = ((), ndf, {"long_name": "degrees of freedom"})
    expected, _ = kernel.expected_counts(edges, parameters, model.second)
    fitted = {"long_name": spectrum.attrs.get("long_name", "clusters a bin"), "units": "count"}
    variables["fitted"] = (("energy",), expected, fitted)
    coords = {
        "energy": ("energy", (edges[1:] + edges[:-1]) / 2, dict(spectrum["energy"].attrs)),
        "parameter": ("parameter", list(model.free)),
        "parameter_2": ("parameter_2", list(model.free)),
    }
    fit = xr.Dataset(variables, coords, {"title": "peak fit", "shape": model.shape})
    return fit if model.lines is None else with_gain(fit, model.lines)


def with_gain(fit: xr.Dataset, lines: KLines) -> xr.Dataset:
    """Add what the known energy of a line tells: `line_energy`, `gain`, `resolution`."""
    units = fit["position"].attrs["units"]
    energy = lines.k_alpha_keV
    gain = fit["position"] / energy
    to_ev = 1000 * _FWHM / gain
    line = {"long_name": f"energy of {lines.element} Kα", "units": "keV"}
    width = {"long_name": "energy resolution (FWHM)", "units": "eV"}
    added = {
        "line_energy": xr.Variable((), energy, line),
        "gain": gain.assign_attrs(long_name="gain", units=f"{units}/keV"),
        "gain_error": (fit["position_error"] / energy).assign_attrs(
            long_name="standard error of: gain", units=f"{units}/keV"
        ),
        "resolution": (fit["sigma"] * to_ev).assign_attrs(width),
        "resolution_error": (fit["sigma_error"] * to_ev).assign_attrs(
            long_name="standard error of: energy resolution (FWHM)", units="eV"
        ),
    }
    return fit.assign(added).assign_attrs(element=lines.element)


def parameter_attrs(name: str, units: str) -> dict[str, str]:
    """Meaning and units of a parameter, where energies are in `units`."""
    of = {"counts": "count", "background": f"count/{units}", "step": "", "tail": "", "ratio": ""}
    unit = of.get(name, units)
    return {"long_name": _MEANINGS[name]} | ({"units": unit} if unit else {})


def _units(spectrum: xr.DataArray) -> str:
    return str(spectrum["energy"].attrs.get("units", "ADU"))


def _bins(spectrum: xr.DataArray) -> tuple[Floats, Floats]:
    """The edges (bin + 1) and counts (bin) of a spectrum of equal bins."""
    if spectrum.dims != ("energy",):
        raise ValueError(f"The spectrum has the dimensions {spectrum.dims}; it must have one, energy.")
    return bin_edges(spectrum), spectrum.to_numpy().astype(np.float64)


def bin_edges(spectrum: xr.DataArray) -> Floats:
    """The edges (bin + 1) of the equal bins whose centres are the coordinate `energy`.

    Raises:
        ValueError: Fewer than three bins, or unequal ones.
    """
    centres = spectrum["energy"].to_numpy().astype(np.float64)
    if len(centres) < 3:
        raise ValueError(f"There is no peak to fit: the spectrum has {len(centres)} bins; give at least three.")
    width = (centres[-1] - centres[0]) / (len(centres) - 1)
    if not np.allclose(np.diff(centres), width, rtol=1e-6) or width <= 0:
        raise ValueError("The bins of this spectrum are unequal or not in ascending order; a fit needs equal ones.")
    return np.asarray(centres[0] + width * (np.arange(len(centres) + 1) - 0.5), np.float64)


def _within(edges: Floats, counts: Floats, limits: tuple[float, float]) -> tuple[Floats, Floats]:
    """The bins whose centres lie within `limits`."""
    centres = (edges[1:] + edges[:-1]) / 2
    chosen = np.flatnonzero((centres >= limits[0]) & (centres <= limits[1]))
    if len(chosen) < 3:
        raise ValueError(
            f"There is no peak to fit: {len(chosen)} bins lie between {limits[0]:.4g} and {limits[1]:.4g}; "
            "give at least three."
        )
    return edges[chosen[0] : chosen[-1] + 2], counts[chosen]
