"""From ADU to keV."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.arguments import real_map
from analysis.binning import Steps

Floats = npt.NDArray[np.float64]
Map = float | npt.NDArray[Any] | xr.DataArray


@dataclass(frozen=True)
class EnergyScale:
    """keV = (ADU - offset) / gain.

    With a map each pixel of a window is divided by its own gain before they are summed up; the offset, which is that of
    a whole cluster, is the central pixel's. A cluster whose central pixel has no gain (0, negative, infinite, NaN) or
    no offset (infinite, NaN) has no energy: NaN. Neighbours without one take the median of the map.

    Attributes:
        gain: ADU/keV, one number or (y, x).
        offset: ADU at 0 keV, one number or (y, x).
    """

    gain: float | Floats
    offset: float | Floats

    @staticmethod
    def of(gain: Map, offset: Map = 0.0) -> "EnergyScale":
        """Check what a user gave.

        Raises:
            ValueError: A gain that is not positive, neither numbers nor maps, or maps of different shapes.
        """
        require_adu_per_kev(gain)
        scale = EnergyScale(_number_or_map("gain", gain), _number_or_map("offset", offset))
        if isinstance(scale.gain, float) and not (np.isfinite(scale.gain) and scale.gain > 0):
            raise ValueError(f"gain is {scale.gain} ADU/keV; it must be a positive number, or a map (y, x) of them.")
        shapes = {value.shape for value in (scale.gain, scale.offset) if isinstance(value, np.ndarray)}
        if len(shapes) > 1:
            raise ValueError(f"The maps of gain and offset have different shapes: {sorted(shapes)}.")
        if isinstance(scale.offset, float) and not np.isfinite(scale.offset):
            raise ValueError(f"offset is {scale.offset} ADU; it must be a finite number, or a map (y, x) of them.")
        if scale.shape is not None and not scale.is_known.any():
            raise ValueError("No pixel of the gain map has a positive gain, and a finite offset.")
        return scale

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the maps, (y, x); None for plain numbers."""
        return next((v.shape for v in (self.gain, self.offset) if isinstance(v, np.ndarray)), None)

    @property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Which pixels have a gain and an offset, (y, x) if there is a map."""
        return np.asarray(np.isfinite(self.gain) & (np.asarray(self.gain) > 0) & np.isfinite(self.offset))

    def steps(self, adu: Steps) -> Steps | None:
        """What energies are possible in keV where these are in ADU; with maps any are (None)."""
        if isinstance(self.gain, np.ndarray) or isinstance(self.offset, np.ndarray):
            return None
        return Steps((adu.first - self.offset) / self.gain, adu.size / self.gain)

    def maps(self) -> tuple[Floats, Floats]:
        """What to multiply each pixel with and what to take off the energy, keV/ADU and keV, both (y, x).

        Pixels without a gain have the median factor, and NaN to take off.
        """
        known = self.is_known
        gain = np.where(known, self.gain, 1.0)
        factors, shifts = np.broadcast_arrays(
            1 / np.where(known, gain, np.median(gain[known])), np.where(known, self.offset / gain, np.nan)
        )
        return np.ascontiguousarray(factors), np.ascontiguousarray(shifts)


def _number_or_map(name: str, value: Map) -> float | Floats:
    if isinstance(value, xr.Dataset):
        # What fits and gain maps return, errors and goodness beside the gain.
        hint = f"its {name}, {name}=found.{name}" if name in value else f"one of {', '.join(map(str, value))}"
        raise ValueError(f"{name} is a Dataset; give {hint}.")
    array = real_map(name, value)
    if array.ndim == 0:
        return float(array)
    if array.ndim != 2:
        raise ValueError(f"{name} has the shape {array.shape}; it must be a number or a map (y, x).")
    return array


def require_adu_per_kev(gain: object) -> None:
    """Refuse a gain that was fitted to energies in keV, which is 1 and no gain of the detector.

    Raises:
        ValueError: Its units say so.
    """
    units = gain.attrs.get("units") if isinstance(gain, xr.DataArray) else None
    if units == "keV/keV":
        raise ValueError("gain is in keV/keV, as fitted to calibrated clusters; give one in ADU/keV, fitted to ADU.")
