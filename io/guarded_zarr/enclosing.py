"""The Zarr store that a place lies in, where nothing that is no part of it may be written."""

from __future__ import annotations

import os
from pathlib import Path

from object_stores import ObjectAddress, Objects, answer, is_url

_METADATA = ("zarr.json", ".zgroup", ".zarray")


def enclosing_store(place: str | os.PathLike[str]) -> str | None:
    """Return the outermost folder above `place` that is a Zarr group or array; None if it lies in none.

    Raises:
        AddressError: it is an address of nothing that is known here.
        StoreFaultError: the object store that it lies on does not say.
    """
    text = os.fspath(place)
    if is_url(text):
        return _enclosing_objects(ObjectAddress.parse(text))
    parents = reversed(Path(text).absolute().resolve().parents)
    found = next((folder for folder in parents if any((folder / name).is_file() for name in _METADATA)), None)
    return None if found is None else str(found)


def _enclosing_objects(address: ObjectAddress) -> str | None:
    for parent in address.parents:
        if any(answer(Objects(parent).abouts(_METADATA))):
            return str(parent)
    return None
