"""FITS files, plain and gzipped: an image (y, x) or a cube (frame, y, x)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.errors import SourceError, cause
from frame_formats.libraries import library
from frame_formats.open_files import OpenFiles
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError
from guarded_zarr import unsaid

_NUMBERS = ("FRAMENUM", "FRAMENO", "FRAME", "IMG_ISN", "SEQNUM")
_EXPOSURES = ("EXPTIME", "EXPOSURE", "ITIME")
_UNSIGNED = {(16, 1 << 15): "uint16", (32, 1 << 31): "uint32", (64, 1 << 63): "uint64", (8, -128): "int8"}
_SIGNED = {8: "uint8", 16: "int16", 32: "int32", 64: "int64", -32: "float32", -64: "float64"}


def open_fits(path: Path, name: str | None) -> OpenedSource:
    """Open a FITS file.

    Args:
        path: the file.
        name: of the extension, or its number; None takes the only one that holds an image.

    Raises:
        SourceError: it holds none, or several.
    """
    try:
        # What is cut short is told here.
        with unsaid(Warning), _open(str(path)) as file:
            number = _image(path, file, name)
            hdu = file[number]
            shape = tuple(int(side) for side in hdu.shape)
            header = dict(hdu.header)
            place = hdu.fileinfo()
    except SourceError:
        raise
    except Exception as error:  # astropy raises whatever a damaged file leads it to.
        raise SourceError(f"{path} is not a whole FITS file: {cause(error)}") from error
    if len(shape) not in (2, 3) or 0 in shape:
        raise SourceError(f"{path} holds an image of {shape}: frames are (y, x) or (frame, y, x)")
    n = 1 if len(shape) == 2 else shape[0]
    there, why = n, ""
    if not _is_packed(path) and "ZIMAGE" not in header and place is not None:
        frame_nbytes = shape[-2] * shape[-1] * abs(int(header["BITPIX"])) // 8
        there = min(n, max(path.stat().st_size - int(place["datLoc"]), 0) // frame_nbytes)
        if there < n:
            why = f"{path} is cut short: {there:,} of its {n:,} frames are there"
    frames = _Images(path, number, there, (shape[-2], shape[-1]), _dtype(header), len(shape) == 3)
    return OpenedSource(frames, _facts(path, header, there, n - there, why))


def _image(path: Path, file: Any, name: str | None) -> int:
    found: dict[int, Any] = {number: hdu for number, hdu in enumerate(file) if hdu.is_image and hdu.shape}
    if name is not None:
        for number, hdu in found.items():
            if name in (str(number), hdu.name):
                return number
    if len(found) == 1 and name is None:
        return int(next(iter(found)))
    listed = ", ".join(f"{number} ({hdu.name or 'no name'}) {hdu.shape}" for number, hdu in found.items())
    if not found:
        raise SourceError(f"{path} holds no image")
    raise SourceError(f"{path}: which image is meant is not clear: choose one with {path}::NUMBER, of {listed}")


def _dtype(header: dict[str, Any]) -> np.dtype[Any]:
    bits, zero, scale = int(header["BITPIX"]), header.get("BZERO", 0), header.get("BSCALE", 1)
    if scale == 1 and zero == 0:
        return np.dtype(_SIGNED[bits])
    # Unsigned integers are stored as signed ones less half their range (FITS standard 4.0, 5.2.5).
    if scale == 1 and (bits, zero) in _UNSIGNED:
        return np.dtype(_UNSIGNED[bits, zero])
    return np.dtype("float64" if bits in (32, 64, -64) else "float32")


def _facts(path: Path, header: dict[str, Any], n: int, n_lost: int, ended_early: str) -> SourceFacts:
    said = {key: value for key, value in header.items() if key and key not in ("COMMENT", "HISTORY", "SIMPLE", "END")}
    attrs: dict[str, Any] = {}
    for key in _EXPOSURES:
        if isinstance(header.get(key), int | float) and not isinstance(header[key], bool):
            attrs["exposure_s"] = float(header[key])
            break
    for key in ("DETECTOR", "DETNAM", "INSTRUME", "CAMERA"):
        if isinstance(header.get(key), str) and header[key].strip():
            attrs["detector"] = header[key].strip()
            break
    numbers = None
    number = next((header[key] for key in _NUMBERS if isinstance(header.get(key), int)), None)
    if number is not None and number >= 0:
        numbers = np.arange(number, number + n, dtype=np.uint64)
    return SourceFacts(
        "FITS",
        attrs=attrs,
        header={key: value if isinstance(value, bool | int | float) else str(value) for key, value in said.items()},
        frame_numbers=numbers,
        files=(SourceFile(path, n),),
        ended_early=ended_early,
        n_lost=n_lost,
    )


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (b"\x1f\x8b", b"BZ", b"PK")


class _Images(FrameSource):
    def __init__(
        self, path: Path, number: int, n: int, shape: tuple[int, int], dtype: np.dtype[Any], is_cube: bool
    ) -> None:
        self.path = path
        self.n_frames = n
        self.frame_shape = shape
        self.dtype = dtype
        self._number, self._is_cube = number, is_cube

    def read(self, start: int, stop: int, out: Frames) -> None:
        try:
            with unsaid(Warning):
                hdu = _opened(str(self.path))[self._number]
            section = hdu.section[start:stop] if self._is_cube else hdu.section[:, :][np.newaxis]
        except Exception as error:
            _opened.forget()
            raise UnreadableFrameError(start, f"{self.path} is damaged or cut short: {cause(error)}") from error
        if section.shape != out.shape or section.dtype.newbyteorder("=") != self.dtype:
            raise UnreadableFrameError(start, f"{self.path} holds {section.shape} {section.dtype}, and says otherwise")
        out[...] = section


def _open(path: str) -> Any:
    fits = library("astropy.io.fits", f"{path} is FITS, which")
    return fits.open(path, memmap=False, lazy_load_hdus=True)


_opened = OpenFiles(_open)
