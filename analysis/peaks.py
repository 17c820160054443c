"""The highest peak of a spectrum, whatever makes it."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from analysis.line_fits import bin_edges, fit_line
from analysis.peak_top import find_top

# Shared charge lies on one side, a second line often on the other, from some 2 sigma on.
_REACH_BELOW = 4.0


@dataclass(frozen=True)
class Peak:
    """A Gaussian on the shelf of shared charge.

    Attributes:
        position: The centre, ADU.
        position_error: Its statistical standard error, ADU.
        sigma: The standard deviation, ADU.
        sigma_error: Its statistical standard error, ADU; NaN where only the top could be fitted.
        height: Clusters a bin at the centre.
    """

    position: float
    position_error: float
    sigma: float
    sigma_error: float
    height: float


def fit_peak(spectrum: xr.DataArray, limits: tuple[float, float] | None = None, reach: float = 1.2) -> Peak:
    """Fit the highest peak of a spectrum, taking nothing for known: a Gaussian with a shelf on its left.

    The fit goes `reach` standard deviations beyond the centre, so that Kβ pulls little at Kα, and four below it. Where
    that is not possible, as with very few clusters, the top of the peak alone is fitted. For lines of known energies
    use ``fit_line``.

    Args:
        spectrum: Counts over the coordinate `energy` (ADU, equal bins).
        limits: Look for the peak between these energies only, ADU.
        reach: How far the fit goes beyond the centre, in standard deviations.

    Raises:
        ValueError: No peak there: fewer than three filled bins around the top, or no maximum between its sides.
    """
    chosen = spectrum if limits is None else spectrum.sel(energy=slice(*limits))
    energy = chosen["energy"].to_numpy().astype(np.float64)
    top = find_top(energy, chosen.to_numpy().astype(np.float64), reach)
    span = (top.position - _REACH_BELOW * top.sigma, top.position + reach * top.sigma)
    try:
        fit = fit_line(chosen, shape="step", limits=span)
    except ValueError:
        return Peak(top.position, top.position_error, top.sigma, float("nan"), top.height)
    width = np.diff(bin_edges(chosen)[:2])[0]
    return Peak(
        position=float(fit.position),
        position_error=float(fit.position_error),
        sigma=float(fit.sigma),
        sigma_error=float(fit.sigma_error),
        height=float(fit.counts * width / (fit.sigma * np.sqrt(2 * np.pi))),
    )
