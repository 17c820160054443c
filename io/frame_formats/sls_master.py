"""Master files of slsDetectorPackage: what a detector's `.raw` files hold, as JSON (versions 7 and 8) or text (6).

Keys and their meaning: "Master File Attributes" and "Binary File Format" in the package's documentation. Since version
8 `Image Size in bytes` is `Image Size`, `Exptime` is `Exposure Time`, `Receiver Roi` is `Receiver Rois`, a list.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frame_formats.errors import SourceError, cause

_NAME = re.compile(r"(?P<base>.*)_master_(?P<run>\d+)\.(json|raw)")
_SUB_FILE = re.compile(r"(?P<base>.*)_d(?P<port>\d+)_f(?P<file>\d+)_(?P<run>\d+)\.raw")
_OLDEST, _NEWEST = 6.0, 9.0
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# What a ROI that is none is written as.
_NONE = (-1, 0xFFFFFFFF)


@dataclass(frozen=True)
class Roi:
    """A region that was written, in pixels of the whole detector; `stop` ones excluded."""

    x_start: int
    x_stop: int
    y_start: int
    y_stop: int


@dataclass(frozen=True)
class SlsMaster:
    """What a master file says.

    Args:
        path: of the master file.
        version: of its format.
        detector: the detector's type, such as `Jungfrau`.
        ports: (rows, columns) of ports: each writes files of its own, for a module or a part of one.
        port_shape: (y, x) pixels of a port.
        bits: of a pixel: 4, 8, 16 or 32.
        rois: the regions that were written; none is the whole detector.
        frames_in_file: how many frames port 0 wrote, or None.
        facts: all that it says, as it says it.
    """

    path: Path
    version: float
    detector: str
    ports: tuple[int, int]
    port_shape: tuple[int, int]
    bits: int
    rois: tuple[Roi, ...]
    frames_in_file: int | None
    facts: dict[str, Any]

    @property
    def is_old_moench(self) -> bool:
        """Whether it is a Mönch 03 that was read out as analog samples, its pixels in the converters' order."""
        if not self.detector.lower().startswith("moench") or self.port_shape != (400, 400):
            return False
        return self.path.suffix == ".raw" or self.facts.get("Analog Samples") == 5000

    @property
    def packet_nbytes(self) -> int | None:
        """Bytes of pixels in a packet, where that is known."""
        kind = self.detector.lower()
        if kind == "jungfrau":
            return 8192
        if kind == "eiger" and "Ten Giga" in self.facts:
            return 4096 if int(self.facts["Ten Giga"]) else 1024
        return 6400 if kind == "moench" and not self.is_old_moench else None

    def seconds(self, *names: str) -> float | None:
        """The first of several durations, in s."""
        for name in names:
            value = self.facts.get(name)
            match = re.fullmatch(r"([-+0-9.eE]+) ?(s|ms|us|ns)", str(value).strip()) if value is not None else None
            if match is not None:
                return float(f"{float(match[1]) * _SECONDS[match[2]]:.12g}")
        return None

    def sub_files(self, port: int) -> list[Path]:
        """The files of a port, in order."""
        match = _NAME.fullmatch(self.path.name)
        assert match is not None
        found = {}
        for path in self.path.parent.iterdir():
            name = _SUB_FILE.fullmatch(path.name)
            if name and (name["base"], int(name["port"]), name["run"]) == (match["base"], port, match["run"]):
                found[int(name["file"])] = path
        return [found[number] for number in sorted(found)]


def is_master(path: Path) -> bool:
    """Whether a file is a master file, by its name."""
    return _NAME.fullmatch(path.name) is not None


def master_of(path: Path) -> Path | None:
    """Return the master file of a data file, if it is there."""
    match = _SUB_FILE.fullmatch(path.name)
    if match is None:
        return None
    names = (f"{match['base']}_master_{match['run']}.{suffix}" for suffix in ("json", "raw"))
    return next((path.with_name(name) for name in names if path.with_name(name).exists()), None)


def read_master(path: Path) -> SlsMaster:
    """Read a master file.

    Raises:
        SourceError: it is none, or of a detector or version that is not read.
    """
    try:
        content = path.read_bytes().decode(errors="replace").replace("\0", "")
        facts = json.loads(content) if content.lstrip().startswith("{") else _from_text(content)
        return _understood(path, facts)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise SourceError(f"{path} is not a whole master file: it does not say {error.args[0]!r}") from error
    except SourceError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise SourceError(f"{path} is not a whole master file: {cause(error)}") from error


def _from_text(content: str) -> dict[str, Any]:
    """`Key : value` lines up to the format of the frame header."""
    facts: dict[str, Any] = {}
    for line in content.splitlines():
        if line.startswith("#Frame Header"):
            break
        key, separator, value = line.partition(":")
        if separator:
            facts[key.strip()] = _value(value.strip())
    return facts


def _value(text: str) -> Any:
    pair = re.fullmatch(r"\[(-?\d+), ?(-?\d+)\]", text)
    if pair:
        return {"x": int(pair[1]), "y": int(pair[2])}
    four = re.fullmatch(r"\[(-?\d+), ?(-?\d+), ?(-?\d+), ?(-?\d+)\]", text)
    if four:
        return dict(zip(("xmin", "xmax", "ymin", "ymax"), map(int, four.groups()), strict=True))
    number = re.fullmatch(r"(-?\d+)( bytes)?", text)
    return int(number[1]) if number else text


def _understood(path: Path, facts: dict[str, Any]) -> SlsMaster:
    version = float(facts["Version"])
    if not _OLDEST <= version < _NEWEST:
        raise SourceError(f"{path} is of version {version:g}, and versions 6 to 8 are read")
    detector = str(facts["Detector Type"]).strip()
    geometry, pixels = facts["Geometry"], facts["Pixels"]
    bits = int(facts.get("Dynamic Range", 16))
    if bits == 12:  # Eiger's 12 bits are written as 16.
        bits = 16
    if bits not in (4, 8, 16, 32):
        raise SourceError(f"{path} says {bits} bits a pixel, and 4, 8, 16 and 32 are read")
    if int(facts.get("Quad", 0)):
        raise SourceError(f"{path} is of an Eiger quad, whose arrangement is not known here")
    ports, shape = (int(geometry["y"]), int(geometry["x"])), (int(pixels["y"]), int(pixels["x"]))
    size = int(facts["Image Size in bytes"] if "Image Size in bytes" in facts else facts["Image Size"])
    n_rows = int(facts.get("Number of rows", shape[0]))
    rois = _rois(facts)
    if size * 8 == n_rows * shape[1] * bits:
        shape = (n_rows, shape[1])
    elif size * 8 != shape[0] * shape[1] * bits and not rois:
        raise SourceError(
            f"{path} says {size} bytes an image, and {shape[0]}×{shape[1]} pixels of {bits} bits are not that many"
        )
    return SlsMaster(path, version, detector, ports, shape, bits, rois, _count(facts.get("Frames in File")), facts)


def _count(value: Any) -> int | None:
    return int(value) if value is not None and int(value) > 0 else None


def _rois(facts: dict[str, Any]) -> tuple[Roi, ...]:
    given = facts.get("Receiver Rois", facts.get("Receiver Roi"))
    found = []
    for roi in given if isinstance(given, list) else [given]:
        if not isinstance(roi, dict) or all(int(side) in _NONE for side in roi.values()):
            continue
        sides = {name: int(roi[name]) for name in ("xmin", "xmax", "ymin", "ymax")}
        # The last row and column are in the file (documentation of "Receiver Roi": "including xmax and ymax").
        found.append(Roi(sides["xmin"], sides["xmax"] + 1, sides["ymin"], sides["ymax"] + 1))
    return tuple(found)
