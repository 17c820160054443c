"""Photon energies and wavelengths."""

from __future__ import annotations

_HC_KEV_ANGSTROM = 12.398419843320026
"""h·c in keV·Å, exact since the SI of 2019 (CODATA 2018: 1.986 445 857…·10⁻²⁵ J m over e)."""


def photon_energy(angstrom: float) -> float:
    """Return the energy of a photon in keV, of its wavelength in Å."""
    return _HC_KEV_ANGSTROM / angstrom
