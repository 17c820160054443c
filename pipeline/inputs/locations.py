"""Whether one place lies in another, be they paths or addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from object_stores import ObjectAddress, Objects, answer, is_url


def relation(place: str, other: str) -> Literal["same", "inside", "around", "apart"]:
    """How `place` lies to `other`: two paths, of which links are followed, or two addresses on one store."""
    if is_url(place) != is_url(other):
        return "apart"
    mine, theirs = (_parts(place), _parts(other))
    if mine == theirs:
        return "same"
    if mine[: len(theirs)] == theirs:
        return "inside"
    return "around" if theirs[: len(mine)] == mine else "apart"


def is_there(place: str) -> bool:
    """Whether there is anything at a path or below an address.

    Raises:
        StoreFaultError: The object store does not say.
    """
    if not is_url(place):
        return Path(place).exists()
    objects = Objects.at(place)
    return any(answer(objects.abouts(["zarr.json", ".zgroup", ".zarray"]))) or not answer(objects.is_empty())


def _parts(place: str) -> tuple[str, ...]:
    if not is_url(place):
        return Path(place).resolve().parts
    address = ObjectAddress.parse(place)
    return (address.scheme, address.bucket, *filter(None, address.key.split("/")))
