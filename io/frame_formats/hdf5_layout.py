"""Where the frames lie in an HDF5 file: in one dataset, or in many that follow each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frame_formats.errors import SourceError, cause
from frame_formats.natural_order import natural_key

_NUMBERED = re.compile(r"(data|image|frames?)_?\d+")
# NeXus; LImA and BLISS; what PSI's and other facilities' writers use.
_USUAL = (
    "entry/data/data",
    "entry/instrument/detector/data",
    "entry_0000/measurement/data",
    "entry_0000/instrument/detector/data",
    "entry1/data/data",
    "exchange/data",
    "data/data",
    "frames",
    "data",
)
_MOST_OBJECTS = 20_000


@dataclass(frozen=True)
class Place:
    """A dataset of frames.

    Args:
        path: the file that it lies in, or that leads to it.
        name: its path in that file.
        missing: why it is not there, or empty.
    """

    path: Path
    name: str
    missing: str = ""


def places_of_frames(path: Path, file: Any, name: str | None) -> list[Place]:
    """Return the datasets whose frames follow each other, in order.

    Args:
        path: of the file.
        file: open, an `h5py.File`.
        name: which dataset, or group of numbered ones; None looks where frames usually are.

    Raises:
        SourceError: it is not there, or not clear.
    """
    if name is not None:
        found = _at(path, file, name)
        if found is None:
            raise SourceError(f"{path} holds no dataset {name!r}: {_choice(path, file)}")
        return found
    default = _nexus_signal(file)
    for usual in ([default] if default else []) + list(_USUAL):
        found = _at(path, file, usual) or _numbered(path, file, usual.rpartition("/")[0])
        if found is not None:
            return found
    stacks = _stacks(file)
    if len(stacks) == 1:
        return [Place(path, stacks[0][0])]
    raise SourceError(f"where the frames are in {path} is not clear: {_choice(path, file)}")


def _nexus_signal(file: Any) -> str | None:
    """Return what NeXus's `default` and `signal` attributes lead to."""
    group, parts = file, []
    for _ in range(3):
        step = _text(group.attrs.get("default"))
        if not step or step not in group:
            break
        group = group[step]
        parts.append(step)
    signal = _text(group.attrs.get("signal")) if hasattr(group, "keys") else ""
    return "/".join([*parts, signal]) if parts and signal else None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _at(path: Path, file: Any, name: str) -> list[Place] | None:
    """The dataset at `name`, or the numbered ones of the group there; None where there is neither."""
    name = name.strip("/")
    try:
        there = file.get(name) if name else file
    except (KeyError, OSError):  # A link whose file is gone.
        return [_linked(path, file, name)]
    if there is None:
        link = file.get(name, getlink=True) if name in file else None
        return [_linked(path, file, name)] if link is not None else None
    if hasattr(there, "shape"):
        return [_linked(path, file, name)] if _is_stack(there) else None
    return _numbered(path, file, name)


def _numbered(path: Path, file: Any, name: str) -> list[Place] | None:
    group = file.get(name) if name else None
    if group is None or not hasattr(group, "keys"):
        return None
    names = sorted((key for key in group if _NUMBERED.fullmatch(key)), key=natural_key)
    return [_linked(path, file, f"{name}/{key}") for key in names] or None


def _linked(path: Path, file: Any, name: str) -> Place:
    """The place of a dataset, in the file that it really lies in."""
    link = file.get(name, getlink=True)
    if type(link).__name__ != "ExternalLink":
        return Place(path, name)
    # Relative to the file that holds the link, as HDF5 looks for it; an absolute one of another machine lies beside it.
    target = path.parent / link.filename
    if not target.exists() and (path.parent / Path(link.filename).name).exists():
        target = path.parent / Path(link.filename).name
    if not target.exists():
        return Place(target, link.path, f"{target}, which {path} links to, is not there")
    return Place(target, link.path.strip("/"))


def _is_stack(dataset: Any) -> bool:
    return dataset.dtype.kind in "iufb" and len(dataset.shape) in (2, 3, 4)


def _stacks(file: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    seen = 0

    def look(name: str, item: Any) -> bool | None:
        nonlocal seen
        seen += 1
        if (
            hasattr(item, "shape")
            and item.dtype.kind in "iuf"
            and len(item.shape) in (3, 4)
            and min(item.shape[-2:]) > 1
        ):
            found.append((name, item))
        return True if seen > _MOST_OBJECTS else None

    file.visititems(look)
    return found


def _choice(path: Path, file: Any) -> str:
    try:
        stacks = [f"{name} {item.shape} {item.dtype}" for name, item in _stacks(file)]
    except Exception as error:
        return f"its contents cannot be listed ({cause(error)})"
    if not stacks:
        return "it holds no three-dimensional dataset (frame, y, x)"
    return f"choose a dataset with {path}::NAME, of {', '.join(stacks[:10])}"
