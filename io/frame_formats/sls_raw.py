"""Frames of slsDetectorPackage's `.raw` files: ports and sub-files put together by frame number, losses flagged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_formats.errors import SourceError
from frame_formats.file_bytes import opened, read_into, whole_frames
from frame_formats.sls_geometry import FrameGeometry, PortPlace, Window, frame_geometry, port_grid
from frame_formats.sls_headers import HEADER, Port, aligned, headers_of, losses, status_of
from frame_formats.sls_master import SlsMaster, read_master
from frame_formats.source import (
    Frames,
    FrameSource,
    OpenedSource,
    SourceFacts,
    SourceFile,
    UnreadableFrameError,
)
from frame_formats.stream import PixelMap, moench03_pixel_map

_COLUMNS = {
    "timestamp": {"long_name": "the detector's timestamp of the frame, in its own ticks"},
    "bunch_id": {"long_name": "the facility's bunch or pulse number"},
}
_DTYPES: dict[int, np.dtype[Any]] = {4: np.dtype("u1"), 8: np.dtype("u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}


def open_sls(
    path: Path, gap_pixels: bool = False, pixel_map: npt.NDArray[np.integer[Any]] | None = None
) -> OpenedSource:
    """Open the frames that a master file describes.

    Args:
        path: the master file; its data files lie beside it.
        gap_pixels: leave room for the pixels between chips and modules, masked.
        pixel_map: (y, x), where in a port's frame each pixel's value lies; None is that of the detector.

    Raises:
        SourceError: it cannot be read, or there are no frames.
    """
    master = read_master(path)
    if pixel_map is None and master.is_old_moench:
        pixel_map = moench03_pixel_map()
    if pixel_map is not None and (pixel_map.shape != master.port_shape or master.bits == 4):
        raise SourceError(f"the pixel map has the shape {pixel_map.shape}, and the ports of {path} {master.port_shape}")
    n_ports = master.ports[0] * master.ports[1]
    files = {port: master.sub_files(port) for port in range(n_ports)}
    positions = {port: _position(listed[0]) for port, listed in files.items() if listed}
    grid = port_grid(master, {port: position for port, position in positions.items() if position is not None})
    geometry = frame_geometry(master, grid, gap_pixels)
    ports, headers, problems = [], [], []
    ended_early = ""
    for place in geometry.ports:
        nbytes = place.stored_shape[0] * place.stored_shape[1] * master.bits // 8
        listed = []
        for file in files[place.port]:
            n, cut_short = whole_frames(file, 0, HEADER.itemsize + nbytes, None)
            ended_early = ended_early or cut_short
            listed.append(SourceFile(file, n))
        port = Port(place, tuple(listed), nbytes)
        ports.append(port)
        headers.append(headers_of(port))
        if not listed:
            problems.append(f"module {place.port} of {path} has no file: its pixels are 0, and all frames flagged")
    if not any(len(of_port) for of_port in headers):
        raise SourceError(f"{path} describes frames, but there is no data file with a whole one beside it")
    numbers, index = aligned([of_port["frame_number"] for of_port in headers])
    status = status_of(master, headers, index)
    problems += losses(status, len(ports))
    written = len(headers[0])
    if not ended_early and master.frames_in_file is not None and written < master.frames_in_file:
        ended_early = f"{path} says that {master.frames_in_file:,} frames were written, and {written:,} are there"
    frames = _SlsFrames(path, tuple(ports), index, geometry.shape, _DTYPES[master.bits], master.bits, pixel_map)
    return OpenedSource(frames, _facts(master, geometry, ports, headers, numbers, index, status)).with_facts(
        problems=tuple(problems), ended_early=ended_early
    )


def _position(path: Path) -> tuple[int, int] | None:
    """(row, column) in the header of a file's first frame."""
    header = np.fromfile(path, HEADER, 1)
    return (int(header["row"][0]), int(header["column"][0])) if len(header) else None


def _facts(
    master: SlsMaster,
    geometry: FrameGeometry,
    ports: list[Port],
    headers: list[npt.NDArray[Any]],
    numbers: npt.NDArray[np.uint64],
    index: npt.NDArray[np.int64],
    status: npt.NDArray[np.uint8],
) -> SourceFacts:
    first = np.argmax(index >= 0, axis=1)
    columns = {}
    for name in _COLUMNS:
        columns[name] = np.zeros(len(index), np.uint64)
        for port, of_port in enumerate(headers):
            here = np.flatnonzero((first == port) & (index[:, port] >= 0))
            columns[name][here] = of_port[name][index[here, port]]
    attrs: dict[str, Any] = {"detector": master.detector}
    if master.detector.lower() == "jungfrau" and master.bits == 16:
        attrs["gain_bits"] = 2
    for name, keys in (("exposure_s", ("Exptime", "Exposure Time")), ("period_s", ("Period", "Acquisition Period"))):
        seconds = master.seconds(*keys)
        if seconds is not None:
            attrs[name] = seconds
    return SourceFacts(
        f"slsDetectorPackage {master.version:g}",
        attrs=attrs,
        header={name: value for name, value in master.facts.items() if name != "Frame Header Format"},
        frame_numbers=numbers,
        frame_status=status,
        columns=columns,
        column_attrs=_COLUMNS,
        pixel_mask=geometry.mask,
        files=_files(ports, len(index)),
    )


def _files(ports: list[Port], n_frames: int) -> tuple[SourceFile, ...]:
    """The files, those of the first port with its frames: a frame of several ports is in as many files."""
    if len(ports) == 1:
        return ports[0].files
    return tuple(SourceFile(file.path, 0) for port in ports for file in port.files)


class _SlsFrames(FrameSource):
    """Frames put together of their ports.

    Args:
        path: of the master file.
        ports: the files, and where their pixels go.
        index: which frame of each port, (frame, port), -1 for none.
        shape: (y, x) of the whole.
        dtype: of a value.
        bits: of a value in the files.
        pixel_map: where in a port's frame each pixel's value lies, or None.
    """

    def __init__(
        self,
        path: Path,
        ports: tuple[Port, ...],
        index: npt.NDArray[np.int64],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        bits: int,
        pixel_map: PixelMap | None,
    ) -> None:
        self.path = path
        self.n_frames = len(index)
        self.frame_shape = shape
        self.dtype = dtype.newbyteorder("=")
        self._ports, self._index, self._stored, self._bits, self._map = ports, index, dtype, bits, pixel_map

    def cut(self, start: int, stop: int) -> FrameSource:
        return _SlsFrames(
            self.path, self._ports, self._index[start:stop], self.frame_shape, self._stored, self._bits, self._map
        )

    def read(self, start: int, stop: int, out: Frames) -> None:
        if sum(len(port.place.y) * len(port.place.x) for port in self._ports) < out[0].size:
            out[...] = 0
        for number, port in enumerate(self._ports):
            self._read_port(port, self._index[start:stop, number], start, out)

    def _read_port(self, port: Port, rows: npt.NDArray[np.int64], start: int, out: Frames) -> None:
        ends = np.cumsum([file.n_frames for file in port.files])
        window, stored = port.place.window, np.empty(port.frame_nbytes, np.uint8)
        is_whole = window is not None and port.place.stored_shape == self.frame_shape and not port.place.flipped
        straight = is_whole and self._bits > 4 and self._map is None and self._stored == self.dtype
        of_file = np.searchsorted(ends, rows, side="right")
        for number in np.unique(of_file[rows >= 0]):
            file, first = port.files[number], int(ends[number]) - port.files[number].n_frames
            with opened(file.path) as descriptor:
                for at in np.flatnonzero((of_file == number) & (rows >= 0)):
                    begin = (int(rows[at]) - first) * (HEADER.itemsize + port.frame_nbytes) + HEADER.itemsize
                    target = out[at].reshape(-1).view(np.uint8) if straight else stored
                    try:
                        got = read_into(descriptor, begin, target)
                    except OSError as error:
                        why = f"{file.path} cannot be read: {error.strerror or error}"
                        raise UnreadableFrameError(start + int(at), why) from error
                    if got < port.frame_nbytes:
                        raise UnreadableFrameError(start + int(at), f"{file.path} has become shorter while it was read")
                    if not straight:
                        self._put(port.place, window, stored, out[at])
        for at in np.flatnonzero(rows < 0):
            self._target(port.place, window, out[at], np.zeros(port.place.stored_shape, self.dtype))

    def _put(
        self, place: PortPlace, window: tuple[slice, slice] | None, stored: npt.NDArray[Any], frame: Frames
    ) -> None:
        if self._bits == 4:
            # Of two pixels in a byte the first is in the low half.
            values = np.stack([stored & 0xF, stored >> 4], axis=1).reshape(place.stored_shape)
        else:
            values = stored.view(self._stored).reshape(place.stored_shape)
        if self._map is not None:
            values = values.reshape(-1)[self._map]
        self._target(place, window, frame, values[::-1] if place.flipped else values)

    @staticmethod
    def _target(place: PortPlace, window: Window | None, frame: Frames, values: npt.NDArray[Any]) -> None:
        if window is not None:
            frame[window] = values
        else:
            frame[np.ix_(place.y, place.x)] = values
