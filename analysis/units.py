"""ADU and keV taken for one another: told where numbers show it."""

import warnings

import numpy as np
import xarray as xr

_LOOKED_AT = 1000
# From fewer clusters nothing is concluded.
_FEW = 20
# Gains are tens to hundreds of ADU/keV: what is meant in the other unit is further off than these.
_FAR_BELOW, _FAR_ABOVE = 5.0, 20.0


class UnitsWarning(UserWarning):
    """Energies that look as if they were in the other unit: ADU where they are keV, or keV where they are ADU."""


def warn_of_other_unit(what: str, low: float, high: float, energies: xr.DataArray) -> None:
    """Say so if energies from `low` to `high` are looked for, and the first clusters have others by far.

    Args:
        what: What looks for them, in words that a user recognises.
        low: The lowest.
        high: The highest.
        energies: (cluster), with their unit; some of the first are computed.

    Raises:
        UnitsWarning: (as a warning) what was said, and what to do.
    """
    first = energies[:_LOOKED_AT].to_numpy()
    first = first[np.isfinite(first)]
    if len(first) < _FEW or ((first >= low) & (first < high)).any():
        return
    unit, typical = energies.attrs["units"], float(np.median(first))
    if unit == "ADU" and 0 <= low < high < typical / _FAR_BELOW:
        todo = "put calibrated(gain) before it if keV are meant"
    elif unit == "keV" and low > _FAR_ABOVE * typical > 0:
        todo = "put it before calibrated() if ADU are meant"
    else:
        return
    warnings.warn(
        f"{what} is in {unit} here, and clusters have about {typical:.3g} {unit}: {todo}", UnitsWarning, stacklevel=4
    )


def warn_of_calibrated(units: str) -> None:
    """Say so if a gain is fitted to energies that are in keV already.

    Raises:
        UnitsWarning: (as a warning) what was said, and what to do.
    """
    if units == "keV":
        warnings.warn(
            "the spectrum is in keV already, so the gain fitted is in keV/keV, 1 where the calibration is right; "
            "for one in ADU/keV fit the clusters before calibrated()",
            UnitsWarning,
            stacklevel=3,
        )
