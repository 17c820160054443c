"""The Zarr store that a place lies in, where nothing that is no part of it may be written."""

from __future__ import annotations

from pathlib import Path

_METADATA = ("zarr.json", ".zgroup", ".zarray")


def enclosing_store(place: Path) -> Path | None:
    """Return the outermost folder above `place` that is a Zarr group or array; None if it lies in none."""
    parents = reversed(place.absolute().resolve().parents)
    return next((folder for folder in parents if any((folder / name).is_file() for name in _METADATA)), None)
