"""Where the ports of a detector lie in its frame: rows and columns, regions, gaps between chips and modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_formats.errors import SourceError
from frame_formats.sls_master import Roi, SlsMaster

Places = npt.NDArray[np.int64]
Window = tuple[slice, slice]
# Eiger's and Jungfrau's chips have 256×256 pixels, 2 pixels apart; modules of 4×2 chips lie 8 columns and 36 rows apart
# (slsDetectorPackage, DetectorImpl::InsertGapPixels).
_CHIP, _CHIP_GAP = 256, 2
_MODULE, _MODULE_GAP = {"y": 512, "x": 1024}, {"y": 36, "x": 8}
GAP_BIT = 1
"""NeXus: bit 0 of a pixel mask is a pixel without a sensor."""


@dataclass(frozen=True)
class PortPlace:
    """A port's part of the frame.

    Args:
        port: its number.
        stored_shape: (y, x) of what its files hold.
        flipped: whether its rows are stored the last first.
        y: (row), where each stored row goes; then x: (column).
        x: where each stored column goes.
    """

    port: int
    stored_shape: tuple[int, int]
    flipped: bool
    y: Places
    x: Places

    @property
    def window(self) -> Window | None:
        """The part of the frame, if its rows and columns follow each other."""
        if (np.diff(self.y) == 1).all() and (np.diff(self.x) == 1).all():
            return slice(int(self.y[0]), int(self.y[-1]) + 1), slice(int(self.x[0]), int(self.x[-1]) + 1)
        return None


@dataclass(frozen=True)
class FrameGeometry:
    """The frame of a detector and the ports in it.

    Args:
        shape: (y, x).
        ports: those that wrote files.
        mask: (y, x), `GAP_BIT` where no port writes; None if each pixel is written.
    """

    shape: tuple[int, int]
    ports: tuple[PortPlace, ...]
    mask: npt.NDArray[np.uint32] | None


def frame_geometry(master: SlsMaster, grid: dict[int, tuple[int, int]], gap_pixels: bool) -> FrameGeometry:
    """Return where each port lies.

    Args:
        master: of the detector.
        grid: (row, column) of each port.
        gap_pixels: leave room for the pixels between chips and modules.

    Raises:
        SourceError: the regions are of a kind that is not read.
    """
    height, width = master.port_shape
    whole = Roi(0, master.ports[1] * width, 0, master.ports[0] * height)
    rois = master.rois or (whole,)
    for roi in rois:
        if not (0 <= roi.x_start < roi.x_stop <= whole.x_stop and 0 <= roi.y_start < roi.y_stop <= whole.y_stop):
            raise SourceError(
                f"{master.path} has the region x {roi.x_start} to {roi.x_stop - 1}, y {roi.y_start} to "
                f"{roi.y_stop - 1}, which is not in its {whole.y_stop}×{whole.x_stop} pixels"
            )
    along_y, along_x = _places(whole.y_stop, "y", master, gap_pixels), _places(whole.x_stop, "x", master, gap_pixels)
    top, left = along_y[min(roi.y_start for roi in rois)], along_x[min(roi.x_start for roi in rois)]
    shape = (
        int(along_y[max(roi.y_stop for roi in rois) - 1] - top) + 1,
        int(along_x[max(roi.x_stop for roi in rois) - 1] - left) + 1,
    )
    places = []
    covered = np.zeros(shape, bool)
    for port, (row, column) in grid.items():
        window = Roi(column * width, (column + 1) * width, row * height, (row + 1) * height)
        parts = [part for roi in rois if (part := _common(window, roi)) is not None]
        if len(parts) > 1:
            raise SourceError(f"{master.path} has several regions in port {port}: only one a port is read")
        for part in parts:
            place = _place(master, port, row, part, part == window, along_y - top, along_x - left)
            covered[np.ix_(place.y, place.x)] = True
            places.append(place)
    mask = None if covered.all() else np.where(covered, 0, GAP_BIT).astype(np.uint32)
    return FrameGeometry(shape, tuple(places), mask)


def _place(
    master: SlsMaster, port: int, row: int, part: Roi, is_whole: bool, along_y: Places, along_x: Places
) -> PortPlace:
    # Of an Eiger's two halves the upper one is stored the last row first, as aare reads it.
    flipped = master.detector.lower() == "eiger" and row % 2 == 0
    if flipped and not is_whole and part.y_stop - part.y_start != master.port_shape[0]:
        raise SourceError(
            f"{master.path} has a region that cuts rows off port {port}, which stores its rows in reverse: "
            "which of them were written is not documented, so it is not read"
        )
    y, x = along_y[part.y_start : part.y_stop], along_x[part.x_start : part.x_stop]
    return PortPlace(port, (len(y), len(x)), flipped, y, x)


def _places(n: int, axis: str, master: SlsMaster, gap_pixels: bool) -> Places:
    pixel = np.arange(n, dtype=np.int64)
    if not gap_pixels:
        return pixel
    if master.detector.lower() not in ("jungfrau", "eiger"):
        raise SourceError(
            f"--gap-pixels: the gaps of a {master.detector} are not known, only those of Jungfrau and Eiger"
        )
    module, within = np.divmod(pixel, _MODULE[axis])
    step = _MODULE[axis] + _CHIP_GAP * (_MODULE[axis] // _CHIP - 1) + _MODULE_GAP[axis]
    return np.asarray(module * step + within + _CHIP_GAP * (within // _CHIP), np.int64)


def _common(one: Roi, other: Roi) -> Roi | None:
    x = max(one.x_start, other.x_start), min(one.x_stop, other.x_stop)
    y = max(one.y_start, other.y_start), min(one.y_stop, other.y_stop)
    return Roi(*x, *y) if x[0] < x[1] and y[0] < y[1] else None


def port_grid(master: SlsMaster, in_headers: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return (row, column) of each port.

    As the headers of its frames say, if together they fill the detector; else counted as slsDetectorPackage does:
    down the columns, the ports of a module together.

    Args:
        master: of the detector.
        in_headers: (row, column) of those ports that wrote frames.
    """
    n_rows, n_columns = master.ports
    everywhere = {(row, column) for row in range(n_rows) for column in range(n_columns)}
    if len(in_headers) == len(everywhere) and set(in_headers.values()) == everywhere:
        return in_headers
    rows, columns = _ports_of_module(master)
    order = [
        (row + port_row, column + port_column)
        for column in range(0, n_columns, columns)
        for row in range(0, n_rows, rows)
        for port_row in range(rows)
        for port_column in range(columns)
    ]
    return dict(enumerate(order))


def _ports_of_module(master: SlsMaster) -> tuple[int, int]:
    kind = master.detector.lower()
    interfaces: Any = master.facts.get("Number of UDP Interfaces", 1)
    if kind == "jungfrau" and int(interfaces) == 2 and master.ports[0] % 2 == 0:
        return 2, 1
    return (1, 2) if kind == "eiger" and master.ports[1] % 2 == 0 else (1, 1)
