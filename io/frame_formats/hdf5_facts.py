"""What HDF5 files tell beside the frames: NeXus, DECTRIS, slsDetectorPackage, LImA and PSI's Jungfrau files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_formats.energies import photon_energy
from frame_formats.hdf5_files import reading
from frame_formats.hdf5_layout import Place
from frame_formats.source import SourceFacts

_DETECTOR = ("entry/instrument/detector", "entry_0000/instrument/detector", "entry1/instrument/detector")
_BEAM = ("entry/instrument/beam", "entry/sample/beam", "entry/instrument/monochromator", "entry1/instrument/beam")
_MASKS = (
    *(f"{group}/{name}" for group in _DETECTOR for name in ("pixel_mask", "detectorSpecific/pixel_mask")),
    "pixel_mask",
    "mask",
)
_FRAME_NUMBERS = ("frame_number", "frame number", "frame_index", "image_number", "frameNumber")
_COLUMNS = {
    "timestamp": ("timestamp", "timestamps", "time stamp", "daq_timestamp"),
    "bunch_id": ("bunch_id", "bunch id", "bunchId", "detector specific 1", "pulse_id", "trainId", "bxID"),
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LONGEST = 200


def facts_of(
    path: Path, file: Any, places: list[Place], lengths: list[int], frame_shape: tuple[int, int]
) -> SourceFacts:
    """Gather what the file `file` at `path` tells of the frames in `places`, of which there are `lengths`."""
    attrs: dict[str, Any] = {}
    for key, names in (
        ("exposure_s", ("count_time", "Exptime", "Exposure Time")),
        ("period_s", ("frame_time", "Period")),
    ):
        seconds = _first_number(file, [f"{group}/{name}" for group in _DETECTOR for name in names], _SECONDS)
        if seconds is not None:
            attrs[key] = seconds
    wavelength = _first_number(
        file, [f"{group}/{name}" for group in _BEAM for name in ("incident_wavelength", "wavelength")], {"nm": 10.0}
    )
    energy = _first_number(
        file,
        [f"{group}/detectorSpecific/photon_energy" for group in _DETECTOR]
        + [f"{group}/photon_energy" for group in _DETECTOR]
        + [f"{group}/incident_energy" for group in _BEAM]
        + ["entry/instrument/monochromator/energy"],
        {"keV": 1000.0},
    )
    if wavelength is not None:
        attrs["wavelength_angstrom"] = wavelength
    if energy is not None:
        attrs["photon_energy_keV"] = energy / 1000
    elif wavelength:
        attrs["photon_energy_keV"] = photon_energy(wavelength)
    for group in _DETECTOR:
        for name in ("description", "Detector Type", "detector_name", "model"):
            text = _text(_value(file, f"{group}/{name}"))
            if text and "detector" not in attrs:
                attrs["detector"] = text
    columns = _columns(file, places, lengths)
    numbers = columns.pop("frame_number", None)
    return SourceFacts(
        "HDF5",
        attrs=attrs,
        header=_header(file),
        frame_numbers=numbers if numbers is not None else _image_numbers(places, lengths),
        columns=columns,
        pixel_mask=_mask(file, frame_shape),
    )


def _value(file: Any, name: str) -> Any:
    try:
        item = file.get(name)
        return item[()] if item is not None and hasattr(item, "shape") and item.size <= 1 else None
    except (KeyError, OSError, TypeError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    text = value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
    return text.strip("\0 ")[:_LONGEST]


def _first_number(file: Any, names: list[str], units: dict[str, float]) -> float | None:
    """The first of several datasets that holds a number, in the unit that `units` multiply into."""
    for name in names:
        value = _value(file, name)
        if value is None:
            continue
        text = _text(value)
        if text:
            value, unit = _number_and_unit(text)
        else:
            unit = _text(file[name].attrs.get("units", ""))
            try:
                value = float(np.asarray(value).reshape(-1)[0])
            except (TypeError, ValueError, IndexError):
                continue
        if value is not None and np.isfinite(value):
            # 1e-5 times a unit is more digits than were written.
            return float(f"{value * units.get(unit, 1.0):.12g}")
    return None


def _number_and_unit(text: str) -> tuple[float | None, str]:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzµ ")
    try:
        return float(digits), text[len(digits) :].strip()
    except ValueError:
        return None, ""


def _columns(file: Any, places: list[Place], lengths: list[int]) -> dict[str, npt.NDArray[Any]]:
    """Values of each frame that lie beside the frames, where there is one for each frame."""
    if len({place.path for place in places}) > 1 or not places:
        return {}
    parents = [places[0].name.rpartition("/")[0], *_DETECTOR, *(f"{group}/detectorSpecific" for group in _DETECTOR)]
    found: dict[str, npt.NDArray[Any]] = {}
    n = sum(lengths)
    for column, names in {"frame_number": _FRAME_NUMBERS, **_COLUMNS}.items():
        for name in (f"{parent}/{each}".strip("/") for parent in parents for each in names):
            item = file.get(name)
            if item is None or not hasattr(item, "shape") or item.dtype.kind not in "iuf" or not item.shape:
                continue
            # Modules have a number each, the same but for losses.
            values = item[:n] if item.ndim == 1 else item[:n, ...].reshape(min(n, item.shape[0]), -1)[:, 0]
            if len(values) == n and (
                column != "frame_number" or (values.dtype.kind in "iu" and values.min(initial=0) >= 0)
            ):
                found[column] = values.astype(np.uint64) if column == "frame_number" else values
                break
    return found


def _image_numbers(places: list[Place], lengths: list[int]) -> npt.NDArray[np.uint64] | None:
    """Frame numbers by DECTRIS's attribute `image_nr_low` of each data file."""
    runs = []
    for place, length in zip(places, lengths, strict=True):
        with reading(str(place.path)) as file:
            first = file[place.name].attrs.get("image_nr_low")
        if first is None:
            return None
        runs.append(np.arange(int(first), int(first) + length, dtype=np.uint64))
    return np.concatenate(runs) if runs else None


def _mask(file: Any, shape: tuple[int, int]) -> npt.NDArray[np.uint32] | None:
    for name in _MASKS:
        item = file.get(name)
        if item is not None and hasattr(item, "shape") and item.dtype.kind in "iub":
            mask = np.asarray(item[()])
            if mask.size == shape[0] * shape[1]:
                return mask.reshape(shape).astype(np.uint32)
    return None


def _header(file: Any) -> dict[str, Any]:
    """The small values of the detector's group, as they are."""
    header: dict[str, Any] = {}
    for group in _DETECTOR:
        item = file.get(group)
        if item is None or not hasattr(item, "keys"):
            continue
        for name in item:
            value = _value(item, name)
            if value is None:
                continue
            text = _text(value)
            if text:
                header[name] = text
            elif np.asarray(value).dtype.kind in "iufb" and np.asarray(value).size == 1:
                header[name] = np.asarray(value).reshape(-1)[0].item()
    return header
