"""Headers of the frames in `.raw` files of slsDetectorPackage: which frames belong together, and what they lack.

Each frame of a port is 112 bytes of header and its pixels, little-endian ("sls receiver header format" of the
package's documentation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frame_formats.sls_geometry import PortPlace
from frame_formats.sls_master import SlsMaster
from frame_formats.source import FrameStatus, SourceFile

HEADER = np.dtype(
    [
        ("frame_number", "<u8"),
        ("exposure", "<u4"),
        ("packets", "<u4"),
        ("bunch_id", "<u8"),
        ("timestamp", "<u8"),
        ("module_id", "<u2"),
        ("row", "<u2"),
        ("column", "<u2"),
        ("reserved", "<u2"),
        ("debug", "<u4"),
        ("round_robin", "<u2"),
        ("detector_type", "u1"),
        ("version", "u1"),
        ("packet_mask", "V64"),
    ]
)


@dataclass(frozen=True)
class Port:
    """The files of one port.

    Args:
        place: where its pixels go.
        files: each with how many whole frames it has.
        frame_nbytes: of a frame's pixels.
    """

    place: PortPlace
    files: tuple[SourceFile, ...]
    frame_nbytes: int


def headers_of(port: Port) -> npt.NDArray[Any]:
    """The headers of all frames of a port, (frame)."""
    stored = np.dtype([("header", HEADER), ("pixels", f"V{port.frame_nbytes}")])
    parts = [
        np.memmap(file.path, stored, "r", shape=(file.n_frames,))["header"] for file in port.files if file.n_frames
    ]
    return np.concatenate(parts) if parts else np.empty(0, HEADER)


def aligned(numbers: list[npt.NDArray[np.uint64]]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Put the frames of several ports side by side by their number.

    Returns:
        The numbers (frame), and which frame of each port has them, (frame, port), -1 for none. Of one port the frames
        stay in their order.
    """
    if len(numbers) == 1:
        return numbers[0].copy(), np.arange(len(numbers[0]), dtype=np.int64)[:, np.newaxis]
    # The n-th frame of a number in one port belongs to the n-th of the same number in the others.
    keys = [_counted(of_port) for of_port in numbers]
    union = np.unique(np.concatenate(keys))
    index = np.full((len(union), len(numbers)), -1, np.int64)
    for port, of_port in enumerate(keys):
        index[np.searchsorted(union, of_port), port] = np.arange(len(of_port))
    return union["number"].copy(), index


def _counted(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    keys = np.zeros(len(numbers), [("number", "<u8"), ("again", "<i8")])
    keys["number"] = numbers
    order = np.argsort(numbers, kind="stable")
    inverse_first = np.flatnonzero(np.r_[True, np.diff(numbers[order]) != 0])[: len(numbers)]
    lengths = np.diff(np.r_[inverse_first, len(numbers)])
    keys["again"][order] = np.arange(len(numbers)) - np.repeat(inverse_first, lengths)
    return keys


def status_of(
    master: SlsMaster, headers: list[npt.NDArray[Any]], index: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return what each frame lacks, (frame), bits of `FrameStatus`.

    Args:
        master: of the detector.
        headers: of each port.
        index: which frame of each port, (frame, port), -1 for none.
    """
    status = np.zeros(len(index), np.uint8)
    for of_port, rows in zip(headers, index.T, strict=True):
        status[rows < 0] |= np.uint8(FrameStatus.MISSING_MODULE)
        if not len(of_port):
            continue
        # A region is cut out after all packets of the port have come.
        image = master.port_shape[0] * master.port_shape[1] * master.bits // 8
        due = -(-image // master.packet_nbytes) if master.packet_nbytes else 0
        due = max(due, int(of_port["packets"].max()))
        lacks = np.zeros(len(index), bool)
        lacks[rows >= 0] = of_port["packets"][rows[rows >= 0]] < due
        status[lacks] |= np.uint8(FrameStatus.MISSING_PACKETS)
    return status


def losses(status: npt.NDArray[np.uint8], n_ports: int) -> list[str]:
    """Return a sentence for what frames lack."""
    said = []
    packets = int(np.count_nonzero(status & np.uint8(FrameStatus.MISSING_PACKETS)))
    module = int(np.count_nonzero(status & np.uint8(FrameStatus.MISSING_MODULE)))
    if packets:
        said.append(f"{packets:,} of {len(status):,} frames lack packets: they are kept and flagged")
    if module:
        said.append(f"{module:,} of {len(status):,} frames lack one of {n_ports} modules: they are kept and flagged")
    return said
