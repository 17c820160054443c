"""From positions of lines to keV, and from ADU of noise to eV and electrons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.gain import require_adu_per_kev

PAIR_ENERGY_EV = 3.62
"""Mean energy that makes an electron-hole pair in silicon at 300 K, eV (Canali, Martini, Ottaviani, Alberigi Quaranta,
IEEE Trans. Nucl. Sci. 19 (1972) 9; at other temperatures 2.15 times the band gap in eV, and 1.21 eV)."""

_NEEDED = ("line_energy", "position", "position_error")


def calibrate(lines: Sequence[xr.Dataset]) -> xr.Dataset:
    """Lay a straight line, ADU = offset + gain · keV, through the positions of several lines.

    Least squares weighted by the errors of the positions. Pixel by pixel where these are maps.

    Args:
        lines: For each line what ``fit_line`` or ``gain_map`` gave: `position`, `position_error` (ADU) and
            `line_energy` (keV). NaN (a flagged pixel) leaves that line out for that pixel.

    Returns:
        `gain` (ADU/keV) and `offset` (ADU), each with ``_error`` (standard error), and `gain_offset_covariance`; `chi2`
        of the positions about the straight line, with `ndf`; `residual` (line), ADU. Where fewer than two lines are
        there, all is NaN.

    Raises:
        ValueError: Fewer than two different energies, positions in different units, or errors that are not above 0.
    """
    if not all(isinstance(line, xr.Dataset) and {*_NEEDED} <= {*line.variables} for line in lines):
        raise ValueError(f"A line lacks {', '.join(_NEEDED)}; give what fit_line and gain_map return with an element.")
    energies = [float(line["line_energy"]) for line in lines]
    found_units = [str(line["position"].attrs.get("units", "ADU")) for line in lines]
    units = found_units[0] if found_units else "ADU"
    if set(found_units) - {units}:
        raise ValueError(f"The positions are in {' and '.join(sorted(set(found_units)))}; give all in one unit.")
    if len(set(energies)) < 2:
        raise ValueError(
            f"A gain and an offset need lines of at least two energies, and {len(set(energies))} came; "
            "one line alone gives a gain with the pedestal as zero: fit_line(...).gain."
        )
    if any(bool((line["position_error"] <= 0).any()) for line in lines):
        raise ValueError("A position has an error of 0 or less, so it has no weight; give errors above 0.")
    energy = xr.DataArray(energies, dims="line")
    position: xr.DataArray = xr.concat([line["position"].reset_coords(drop=True) for line in lines], "line")
    error: xr.DataArray = xr.concat([line["position_error"].reset_coords(drop=True) for line in lines], "line")
    there = position.notnull() & error.notnull()
    weight = (1 / error**2).where(there, 0)
    position = position.where(there, 0)
    n = there.sum("line")
    # About the mean energy gain and height are independent, so that nothing cancels.
    total = weight.sum("line")
    middle = (weight * energy).sum("line") / total
    from_middle = energy - middle
    height = (weight * position).sum("line") / total
    spread = (weight * from_middle**2).sum("line")
    enough = (there & (from_middle != 0)).sum("line") >= 2
    gain = ((weight * from_middle * position).sum("line") / spread).where(enough)
    offset = (height - gain * middle).where(enough)
    variance = (1 / spread).where(enough)
    residual = (position - offset - gain * energy).where(there)
    results: dict[str, tuple[xr.DataArray, str, str]] = {
        "gain": (gain, "gain", f"{units}/keV"),
        "gain_error": (variance**0.5, "standard error of: gain", f"{units}/keV"),
        "offset": (offset, "offset", units),
        "offset_error": (
            (1 / total + middle**2 / spread).where(enough) ** 0.5,
            "standard error of: offset",
            units,
        ),
        "gain_offset_covariance": (-middle * variance, "covariance of gain and offset", f"{units}²/keV"),
        "chi2": ((weight * residual**2).sum("line").where(enough), "chi² about the straight line", ""),
        "ndf": (n - 2, "degrees of freedom", ""),
        "residual": (residual, "position less the straight line", units),
    }
    named = {
        name: value.assign_attrs({"long_name": meaning} | ({"units": unit} if unit else {}))
        for name, (value, meaning, unit) in results.items()
    }
    known = xr.DataArray(energies, dims="line", attrs={"long_name": "energy of the line", "units": "keV"})
    return xr.Dataset(named, {"line_energy": known}, {"title": "linear calibration"})


def noise(adu: xr.DataArray, gain: xr.DataArray | float, pair_energy_ev: float = PAIR_ENERGY_EV) -> xr.Dataset:
    """Tell noise in ADU as energy and as electrons (r.m.s.).

    Args:
        adu: Standard deviation, ADU: of the dark signal of each pixel, say (the dataset's group `pedestal` has it).
        gain: ADU/keV, for all pixels or a map.
        pair_energy_ev: Mean energy that makes an electron-hole pair, eV; silicon's at 300 K if left out.

    Returns:
        `noise` (ADU), `noise_ev` (eV) and `noise_electrons`, over the dimensions of `adu`; NaN where a map has no gain.

    Raises:
        ValueError: A pair energy or a gain that is not above 0, or a gain that was fitted to energies in keV.
    """
    if not pair_energy_ev > 0:
        raise ValueError(f"The energy of an electron-hole pair is {pair_energy_ev} eV; it must be above 0.")
    require_adu_per_kev(gain)
    adu = xr.DataArray(adu)
    known = gain if isinstance(gain, xr.DataArray) else xr.DataArray(gain, dims=adu.dims if np.ndim(gain) else ())
    known = known.where(np.isfinite(known) & (known > 0))
    if not known.notnull().any():
        raise ValueError(f"gain is {gain if np.ndim(gain) == 0 else 'a map without one'}; it must be above 0, ADU/keV.")
    in_ev = 1000 * adu / known
    return xr.Dataset(
        {
            "noise": adu.assign_attrs(long_name="noise (r.m.s.)", units="ADU"),
            "noise_ev": in_ev.assign_attrs(long_name="noise (r.m.s.)", units="eV"),
            "noise_electrons": (in_ev / pair_energy_ev).assign_attrs(
                long_name="noise (r.m.s.)", units="electron", pair_energy_ev=pair_energy_ev
            ),
        }
    )
