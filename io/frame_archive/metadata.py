"""What the metadata files of a Zarr store say, read without opening an array.

Everything that can be wrong with an archive's shape or type is seen here first, before zarr builds codecs
from somebody else's file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from guarded_zarr import StoreFolder, cut_short, parsed

_DEEPEST_SEARCH = 4
_MOST_FOLDERS_SEARCHED = 1000
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


def node_at(store: StoreFolder, path: str = "") -> Node | None:
    """Return what lies at `path` of a store, or None where there is neither a Zarr group nor a Zarr array.

    Args:
        store: the store.
        path: in it; empty is its root.

    Raises:
        OSError: the metadata is there and cannot be read.
        ValueError: the metadata is damaged; the message is the cause alone.
    """
    document = _json_file(store, path, "zarr.json")
    if document is not None:
        kind = document.get("node_type")
        if kind not in ("array", "group"):
            raise ValueError(f"its node_type is {cut_short(kind)}, neither 'array' nor 'group'")
        if kind == "group":
            return Node("group", 3, (), None, document)
        return Node("array", 3, _shape(document), _dtype(document.get("data_type")), document)
    document = _json_file(store, path, ".zarray")
    if document is not None:
        return Node("array", 2, _shape(document), _dtype(document.get("dtype")), document)
    document = _json_file(store, path, ".zgroup")
    return None if document is None else Node("group", 2, (), None, document)


FORMAT_NAME = "photonflow frame archive"
"""The attribute `format` by which an archive of ours is known."""


def is_own_archive(root: Node | None) -> bool:
    """Whether the group `root` is that of an archive that `create_archive` made: no chunk of it is ever left out."""
    attributes = None if root is None else root.document.get("attributes")
    return isinstance(attributes, dict) and attributes.get("format") == FORMAT_NAME


def arrays_below(store: StoreFolder) -> Iterator[tuple[str, Node]]:
    """Yield the path and description of the arrays in the group at the root of `store`, in order of name.

    Folders that are links are not searched, and no more than a thousand of the others.
    """
    return _arrays_below(store, "", iter(range(_MOST_FOLDERS_SEARCHED)), _DEEPEST_SEARCH)


def _arrays_below(store: StoreFolder, folder: str, budget: Iterator[int], depth: int) -> Iterator[tuple[str, Node]]:
    for child in store.folders(folder):
        if next(budget, None) is None:
            return
        path = f"{folder}/{child}" if folder else child
        try:
            node = node_at(store, path)
        except (OSError, ValueError):
            continue
        if node is None:
            continue
        if node.kind == "array":
            yield path, node
        elif depth > 1:
            yield from _arrays_below(store, path, budget, depth - 1)


def _json_file(store: StoreFolder, path: str, name: str) -> dict[str, Any] | None:
    try:
        content = store.metadata(f"{path}/{name}" if path else name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    document = parsed(content)
    if not isinstance(document, dict):
        raise ValueError(f"{name} holds {cut_short(document)}, not an object")
    return document


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
