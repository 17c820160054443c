"""The highest peak of a spectrum, whatever makes it."""

import numpy as np
import xarray as xr

from analysis.line_fits import fit_line
from analysis.peak_top import Peak, find_top

# Shared charge lies on one side, a second line often on the other, from some 2 sigma on.
_REACH_BELOW, _REACH_ABOVE = 4.0, 1.2


def fit_peak(spectrum: xr.DataArray, limits: tuple[float, float] | None = None, reach: float = 1.2) -> Peak:
    """Fit a Gaussian to the top of the highest peak, taking nothing for known: no shape of its flanks, no energy.

    Args:
        spectrum: Counts over the coordinate `energy` (equal bins).
        limits: Look for the top between these energies only.
        reach: How far the fit goes from the centre, in standard deviations.

    Raises:
        ValueError: No peak there: fewer than three filled bins around the top, or no maximum between its sides.
    """
    return _top(spectrum if limits is None else spectrum.sel(energy=slice(*limits)), reach)


def fit_peak_on_shelf(spectrum: xr.DataArray) -> xr.Dataset:
    """Fit the highest peak with the shelf of shared charge on its left, as ``fit_line`` does.

    From four standard deviations below the centre to 1.2 beyond it, so that a Kβ not known of pulls little at Kα.

    Raises:
        ValueError: No peak there, or too few clusters for more than its top.
    """
    top = _top(spectrum, _REACH_ABOVE)
    span = (top.position - _REACH_BELOW * top.sigma, top.position + _REACH_ABOVE * top.sigma)
    return fit_line(spectrum, shape="step", limits=span)


def _top(spectrum: xr.DataArray, reach: float) -> Peak:
    energy = spectrum["energy"].to_numpy().astype(np.float64)
    return find_top(energy, spectrum.to_numpy().astype(np.float64), reach)
