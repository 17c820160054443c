"""What the metadata files of a Zarr store say, read without opening an array.

Everything that can be wrong with an archive's shape or type is seen here first, before zarr builds codecs
from somebody else's file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_DEEPEST_SEARCH = 4


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
        return str(self.document.get("data_type", self.document.get("dtype")))

    @property
    def runs_pickle(self) -> bool:
        """Whether reading this array would unpickle what the store holds, which can run any program."""
        return _names_pickle([self.document.get(key) for key in ("codecs", "filters", "compressor", "data_type")])


def node_at(folder: Path) -> Node | None:
    """Return what lies in `folder`, or None where there is neither a Zarr group nor a Zarr array.

    Raises:
        OSError: the metadata is there and cannot be read.
        json.JSONDecodeError: the metadata is no JSON.
    """
    document = _json_file(folder / "zarr.json")
    if document is not None:
        if document.get("node_type") != "array":
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
    document = json.loads(text)
    if not isinstance(document, dict):
        raise json.JSONDecodeError("expected an object", text[:20], 0)
    return document


def _shape(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(side) for side in document.get("shape", ()))


def _dtype(name: object) -> "np.dtype[Any] | None":
    if not isinstance(name, str):
        return None
    try:
        return np.dtype(name)
    except TypeError:
        return None


def _names_pickle(value: object) -> bool:
    if isinstance(value, dict):
        return any(
            (key in ("id", "name") and "pickle" in str(item).lower()) or _names_pickle(item)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(_names_pickle(item) for item in value)
