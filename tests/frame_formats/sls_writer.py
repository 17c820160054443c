"""A writer of slsDetectorPackage's `.raw` files, byte for byte as its documentation describes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DETECTOR_TYPES = {"Eiger": 1, "Jungfrau": 3, "Moench": 5}


def header(
    frame_number: int,
    packets: int,
    row: int = 0,
    column: int = 0,
    module: int = 0,
    detector: str = "Jungfrau",
    bunch_id: int | None = None,
    timestamp: int | None = None,
) -> bytes:
    """The 112 bytes before a frame: 48 of the detector's, 64 of packets caught."""
    bunch_id = 1000 + frame_number if bunch_id is None else bunch_id
    timestamp = 10_000 * frame_number if timestamp is None else timestamp
    first = struct.pack(
        "<QIIQQHHHHIHBB",
        frame_number, 100, packets, bunch_id, timestamp, module, row, column, 0, 3840, 0, DETECTOR_TYPES[detector], 2,
    )  # fmt: skip
    return first + ((1 << packets) - 1).to_bytes(64, "little")


def stored(pixels: np.ndarray, bits: int) -> bytes:
    """Pixels as they are in the file."""
    if bits == 4:
        flat = pixels.reshape(-1).astype(np.uint8)
        return (flat[0::2] | flat[1::2] << 4).tobytes()
    return pixels.astype({8: "u1", 16: "<u2", 32: "<u4"}[bits]).tobytes()


def write_port(
    folder: Path,
    port: int,
    frames: Sequence[tuple[bytes, np.ndarray]],
    bits: int = 16,
    per_file: int = 3,
    name: str = "run",
) -> list[Path]:
    """The sub-files of a port: headers and pixels (y, x)."""
    paths = []
    for number in range(-(-len(frames) // per_file)):
        path = folder / f"{name}_d{port}_f{number}_0.raw"
        part = frames[number * per_file : (number + 1) * per_file]
        path.write_bytes(b"".join(head + stored(pixels, bits) for head, pixels in part))
        paths.append(path)
    return paths


def write_master(
    folder: Path,
    shape: tuple[int, int],
    ports: tuple[int, int] = (1, 1),
    *,
    version: float = 7.2,
    detector: str = "Jungfrau",
    bits: int = 16,
    n_frames: int = 7,
    roi: tuple[int, int, int, int] | None = None,
    rois: Sequence[tuple[int, int, int, int]] = (),
    name: str = "run",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """The master file: text of version 6, JSON of 7 and 8; regions as (xmin, xmax, ymin, ymax), the last included."""
    size = shape[0] * shape[1] * bits // 8
    if version < 7:
        lines = {
            "Version": version,
            "TimeStamp": "Mon Aug 31 08:57:49 2020",
            "Detector Type": detector,
            "Timing Mode": "auto",
            "Geometry": f"[{ports[1]}, {ports[0]}]",
            "Image Size": f"{size} bytes",
            "Pixels": f"[{shape[1]}, {shape[0]}]",
            "Max Frames Per File": 3,
            "Frame Discard Policy": "nodiscard",
            "Frame Padding": 1,
            "Scan Parameters": "[disabled]",
            "Total Frames": n_frames,
            "Dynamic Range": bits,
            "Exptime": "10us",
            "Period": "2ms",
            "Frames in File": n_frames,
            **(more or {}),
        }
        path = folder / f"{name}_master_0.raw"
        text = "".join(f"{key:<27}: {value}\n" for key, value in lines.items())
        path.write_text(f"{text}\n#Frame Header\nFrame Number               : 8 bytes\n")
        return path
    is_8 = version >= 8
    sides = ("xmin", "xmax", "ymin", "ymax")
    facts = {
        "Version": version,
        "Timestamp": "Wed Nov 13 13:03:53 2024",
        "Detector Type": detector,
        "Timing Mode": "auto",
        "Geometry": {"x": ports[1], "y": ports[0]},
        "Image Size" if is_8 else "Image Size in bytes": size,
        "Pixels": {"x": shape[1], "y": shape[0]},
        "Max Frames Per File": 3,
        "Frame Discard Policy": "nodiscard",
        "Frame Padding": 1,
        "Total Frames": n_frames,
        "Dynamic Range": bits,
        "Exposure Time" if is_8 else "Exptime": "10us",
        "Acquisition Period" if is_8 else "Period": "2ms",
        "Frames in File": n_frames,
        "Frame Header Format": {"Frame Number": "8 bytes"},
        **(more or {}),
    }
    none = (4294967295,) * 4
    if is_8:
        whole = (0, ports[1] * shape[1] - 1, 0, ports[0] * shape[0] - 1)
        facts["Receiver Rois"] = [dict(zip(sides, each, strict=True)) for each in rois or (whole,)]
    else:
        facts["Receiver Roi"] = dict(zip(sides, roi or none, strict=True))
    path = folder / f"{name}_master_0.json"
    path.write_text(json.dumps(facts, indent=4))
    return path
