"""CBF, EDF, MarCCD and the other formats of fabio."""

from __future__ import annotations

import bz2
import gzip
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.energies import photon_energy
from frame_formats.errors import SourceError, cause
from frame_formats.libraries import library
from frame_formats.open_files import OpenFiles
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError

_BLOCK = 1 << 20
_BINARY_SECTION, _PIXELS_BEGIN = b"--CIF-BINARY-FORMAT-SECTION--", b"\x0c\x1a\x04\xd5"
"""Between these is the header of a CBF file's pixels (imgCIF dictionary, `_array_data.data`)."""
_UNPACKED_BY: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


def open_fabio(path: Path) -> OpenedSource:
    """Open a file of one of fabio's formats.

    Raises:
        SourceError: fabio does not read it.
    """
    try:
        _require_header_of_cbf(path)
        with _told() as said, library("fabio", f"{path} is of a format that").open(str(path)) as image:
            shape, dtype, n = tuple(image.shape), np.dtype(image.dtype), int(image.nframes)
            header = {str(key): value for key, value in image.header.items()}
            kind = type(image).__name__.removesuffix("Image")
    except SourceError:
        raise
    except Exception as error:  # fabio raises whatever a damaged file leads it to, AssertionError too.
        raise SourceError(f"{path} is not a whole file of a format that fabio reads: {cause(error)}") from error
    if said and n == 1:
        raise SourceError(f"{path} is damaged or cut short: {said[0]}")
    if len(shape) != 2:
        raise SourceError(f"{path} holds images of {shape}: frames are (y, x)")
    facts = SourceFacts(kind.upper(), attrs=_attrs(header), header=header, files=(SourceFile(path, n),))
    return OpenedSource(_Images(path, n, (int(shape[0]), int(shape[1])), dtype), facts)


def _require_header_of_cbf(path: Path) -> None:
    """Refuse a CBF file whose header does not end: fabio would look for that end for ever."""
    unpack = _UNPACKED_BY.get(path.suffix.lower(), open)
    name = path.name.lower().removesuffix(".gz").removesuffix(".bz2")
    with unpack(path, "rb") as file:
        content = file.read(_BLOCK)
        if not (content.startswith(b"###") or name.endswith(".cbf")):
            return
        while _PIXELS_BEGIN not in content.partition(_BINARY_SECTION)[2]:
            more = file.read(_BLOCK)
            if not more:
                raise SourceError(f"{path} is cut short or damaged: the header of a CBF file does not end in it")
            content += more


def _attrs(header: dict[str, Any]) -> dict[str, Any]:
    """Exposure and wavelength, as Dectris' mini-header of CBF, or EDF's keys say."""
    lines = "\n".join(f"{key} {value}" for key, value in header.items())
    attrs: dict[str, Any] = {}
    for name, pattern in (
        ("exposure_s", r"Exposure_time\s+([-+.\deE]+)\s*s"),
        ("period_s", r"Exposure_period\s+([-+.\deE]+)\s*s"),
        ("wavelength_angstrom", r"Wavelength\s+([-+.\deE]+)\s*A"),
    ):
        match = re.search(pattern, lines)
        if match is not None:
            attrs[name] = float(match[1])
    match = re.search(r"Detector:?\s+([^\n,]+)", lines)
    if match is not None:
        attrs["detector"] = match[1].strip()
    if attrs.get("wavelength_angstrom"):
        attrs["photon_energy_keV"] = photon_energy(attrs["wavelength_angstrom"])
    return attrs


class _Images(FrameSource):
    def __init__(self, path: Path, n: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.n_frames = n
        self.frame_shape = shape
        self.dtype = dtype.newbyteorder("=")

    def read(self, start: int, stop: int, out: Frames) -> None:
        for index in range(start, stop):
            try:
                with _told() as said:
                    image = _opened(str(self.path))
                    values = image.data if self.n_frames == 1 else image.get_frame(index).data
            except Exception as error:
                _opened.forget()
                raise UnreadableFrameError(index, f"image {index} of {self.path} is damaged: {cause(error)}") from error
            if said:
                _opened.forget()
                raise UnreadableFrameError(index, f"image {index} of {self.path} is damaged or cut short: {said[0]}")
            if values.shape != self.frame_shape or values.dtype.newbyteorder("=") != self.dtype:
                raise UnreadableFrameError(index, f"image {index} of {self.path} is {values.shape} {values.dtype}")
            out[index - start] = values


class _Listener(logging.Handler):
    """What fabio only logs, and then goes on with zeros."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.thread == self._thread and re.search(r"(?i)incomplete|mismatch|truncat|corrupt|missing", text):
            self.said.append(" ".join(text.split()))


@contextmanager
def _told() -> Iterator[list[str]]:
    logger, listener = logging.getLogger("fabio"), _Listener()
    logger.addHandler(listener)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield listener.said
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagated


def _open(path: str) -> Any:
    return library("fabio", f"{path} is of a format that").open(path)


_opened = OpenFiles(_open)
