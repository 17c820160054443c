"""What the metadata files of a Zarr store say, read without opening an array.

Everything that can be wrong with an archive's shape or type is seen here first, before zarr builds codecs
from somebody else's file.
"""

import json
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_DEEPEST_SEARCH = 4
_DEEPEST_JSON = 64
_TOO_DEEP = f"its JSON is nested more than {_DEEPEST_JSON} deep"
_LARGEST_ARRAY = 2**63 - 1


@dataclass(frozen=True)
class Node:
    """One group or array of a Zarr store, as its metadata file describes it.

    Attributes:
        kind: "group" or "array".
        zarr_format: 2 or 3.
        shape: of an array; empty for a group.
        dtype: of an array, where NumPy has such a type; else None.
        document: the parsed metadata file.
    """

    kind: Literal["group", "array"]
    zarr_format: Literal[2, 3]
    shape: tuple[int, ...]
    dtype: "np.dtype[Any] | None"
    document: dict[str, Any]

    @property
    def type_name(self) -> str:
        """The element type as a person would write it."""
        if self.dtype is not None:
            return self.dtype.name
        return cut_short(self.document.get("data_type", self.document.get("dtype")))

    @property
    def runs_pickle(self) -> bool:
        """Whether reading this array would unpickle what the store holds, which can run any program."""
        return _names_pickle([self.document.get(key) for key in ("codecs", "filters", "compressor", "data_type")])


def node_at(folder: Path) -> Node | None:
    """Return what lies in `folder`, or None where there is neither a Zarr group nor a Zarr array.

    Raises:
        OSError: the metadata is there and cannot be read.
        ValueError: the metadata is damaged; the message is the cause alone.
    """
    document = _json_file(folder / "zarr.json")
    if document is not None:
        kind = document.get("node_type")
        if kind not in ("array", "group"):
            raise ValueError(f"its node_type is {cut_short(kind)}, neither 'array' nor 'group'")
        if kind == "group":
            return Node("group", 3, (), None, document)
        return Node("array", 3, _shape(document), _dtype(document.get("data_type")), document)
    document = _json_file(folder / ".zarray")
    if document is not None:
        return Node("array", 2, _shape(document), _dtype(document.get("dtype")), document)
    document = _json_file(folder / ".zgroup")
    return None if document is None else Node("group", 2, (), None, document)


def arrays_below(folder: Path, depth: int = _DEEPEST_SEARCH) -> Iterator[tuple[str, Node]]:
    """Yield the path and description of every array in the group at `folder`, in order of name."""
    for child in sorted(entry.name for entry in folder.iterdir() if entry.is_dir()):
        try:
            node = node_at(folder / child)
        except (OSError, ValueError):
            continue
        if node is None:
            continue
        if node.kind == "array":
            yield child, node
        elif depth > 1:
            for path, array in arrays_below(folder / child, depth - 1):
                yield f"{child}/{path}", array


def _json_file(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    require_shallow(document)
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} holds {cut_short(document)}, not an object")
    return document


def require_shallow(value: object) -> None:
    """Refuse parsed JSON that is nested so deep that no metadata is, and that programs trip over.

    Raises:
        ValueError: it is; the message is the cause alone.
    """
    level = [value]
    for _ in range(_DEEPEST_JSON):
        level = [child for item in level for child in _children(item)]
    if level:
        raise ValueError(_TOO_DEEP)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _shape(document: dict[str, Any]) -> tuple[int, ...]:
    shape = document.get("shape")
    # A bool is an int to Python, but no length.
    if not isinstance(shape, list) or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"its shape is {cut_short(shape)}, not a list of whole numbers")
    if max(prod(shape), *shape, 0) > _LARGEST_ARRAY:
        raise ValueError(f"its shape is {cut_short(shape)}, more than any array holds")
    return tuple(shape)


def _dtype(name: object) -> "np.dtype[Any] | None":
    if not isinstance(name, str):
        return None
    try:
        return np.dtype(name)
    except Exception:  # NumPy takes a text for many kinds of description, and raises what it trips over.
        return None


def cut_short(value: object) -> str:
    """`value` as a person may read it in one line, whatever a file holds."""
    return reprlib.repr(value)


def _names_pickle(value: object) -> bool:
    if isinstance(value, dict):
        return any(
            (key in ("id", "name") and "pickle" in str(item).lower()) or _names_pickle(item)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(_names_pickle(item) for item in value)
