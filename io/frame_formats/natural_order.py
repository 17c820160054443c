"""Which files a user means, in the order in which a person would count them."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from frame_formats.errors import SourceError

_DIGITS = re.compile(r"(\d+)")
_SEPARATOR = "::"


def natural_key(name: str) -> list[tuple[int, int | str]]:
    """Return what to sort by so that `frame_9` comes before `frame_10`."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(name) if part]


def split_address(address: str) -> tuple[str, str | None]:
    """Return the path and, after `::`, the name of an array in it, as in `run.h5::entry/data/data`."""
    if Path(address).exists():
        return address, None
    path, separator, name = address.rpartition(_SEPARATOR)
    return (path, name) if separator and path and name else (address, None)


def expanded(addresses: Sequence[str]) -> list[tuple[Path, str | None]]:
    """Return the paths that addresses mean, each with the name of the array in it, if one was given.

    Patterns (`*`, `?`, `[0-9]`) are expanded, each in natural order. Addresses that are in the order of the alphabet,
    as a shell expands a pattern, are put into natural order; any other order is the user's, and kept.

    Raises:
        SourceError: nothing is there.
    """
    given = list(addresses)
    if given == sorted(given):
        given.sort(key=natural_key)
    found: list[tuple[Path, str | None]] = []
    for address in given:
        path, name = split_address(address)
        if Path(path).exists():
            found.append((Path(path), name))
        elif glob.has_magic(path):
            matches = sorted(glob.glob(path, recursive=True), key=natural_key)  # noqa: PTH207 (Path.glob takes no absolute pattern)
            if not matches:
                raise SourceError(f"no file matches {path}: check the pattern and the folder")
            found += [(Path(match), name) for match in matches]
        else:
            raise SourceError(f"{path} does not exist: check the path")
    return found
