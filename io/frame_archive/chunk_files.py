"""Which chunks of an array are there: what its folders hold, not what its metadata claims.

An array may claim billions of chunks and hold one, so nothing here takes time or memory for a chunk that is not there:
listings say which chunks are, and what lies between them in the grid is missing.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frame_archive.chunk_grid import ChunkNames, Grid, coordinates_in, number_in
from frame_archive.errors import ArchiveError
from object_stores import About

# Of so few chunks, asking for each costs less than listing folders that may hold many others.
_ASKED_ONE_BY_ONE = 64
_NUMBER = "(0|[1-9][0-9]*)"


@dataclass(frozen=True)
class ChunkFiles:
    """The files of an array's chunks (or shards) in a local store.

    Attributes:
        folder: where they lie, or the folders with them.
        nested: whether each coordinate but the last is a folder; else all are in the file's name.
        prefix: what a name begins with that is not nested.
    """

    folder: str
    nested: bool
    prefix: str

    @classmethod
    def of(cls, array: "zarr.Array[Any]", archive: Path) -> "ChunkFiles":
        """Return the chunk files of `array` in the archive at `archive`.

        Raises:
            ArchiveError: the chunks have names of a kind that is not known here.
        """
        folder = archive / array.path
        names = ChunkNames.of(array, str(folder))
        if names.separator == "/":
            return cls(str(folder.joinpath(*names.before)), nested=True, prefix="")
        return cls(str(folder), nested=False, prefix="".join(f"{name}." for name in names.before))

    def abouts(self, grid: Grid) -> Iterator[tuple[int, About]]:
        """Yield the number of each chunk of `grid` that is there and what the file system says of it, in order.

        Raises:
            ArchiveError: the file system does not say.
        """
        if self.nested:
            return self._nested_stats(self.folder, grid, 0)
        return self._flat_stats(grid)

    def _nested_stats(self, path: str, grid: Grid, first: int) -> Iterator[tuple[int, About]]:
        side, rest = grid[0], grid[1:]
        n_inside = prod(map(len, rest))
        places = side if len(side) * n_inside <= _ASKED_ONE_BY_ONE else _places_in(path, side)
        if n_inside > _ASKED_ONE_BY_ONE:
            for place in places:
                yield from self._nested_stats(f"{path}/{place}", rest, first + (place - side.start) * n_inside)
            return
        inside = ["".join(f"/{at}" for at in coordinates) for coordinates in product(*rest)]
        for place in places:
            for number, tail in enumerate(inside, first + (place - side.start) * n_inside):
                about = _about(f"{path}/{place}{tail}")
                if about is not None:
                    yield number, about

    def _flat_stats(self, grid: Grid) -> Iterator[tuple[int, About]]:
        n_chunks = prod(map(len, grid))
        numbers = range(n_chunks) if n_chunks <= _ASKED_ONE_BY_ONE else self._numbers_listed(grid)
        for number in numbers:
            name = self.prefix + ".".join(map(str, coordinates_in(grid, number)))
            about = _about(f"{self.folder}/{name}")
            if about is not None:
                yield number, about

    def _numbers_listed(self, grid: Grid) -> Iterator[int]:
        form = re.compile(re.escape(self.prefix) + r"\.".join([_NUMBER] * len(grid)))

        def numbers() -> Iterator[int]:
            for name in _names_in(self.folder):
                match = form.fullmatch(name)
                number = None if match is None else number_in(grid, [int(at) for at in match.groups()])
                if number is not None:
                    yield number

        return _in_order(numbers())


def _places_in(folder: str, side: range) -> Iterator[int]:
    form = re.compile(_NUMBER)
    return _in_order(int(name) for name in _names_in(folder) if form.fullmatch(name) and int(name) in side)


def _in_order(numbers: Iterator[int]) -> Iterator[int]:
    # As an array: eight bytes for each of what may be millions.
    found: npt.NDArray[np.int64] = np.sort(np.fromiter(numbers, np.int64))
    return map(int, found)


def _names_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ArchiveError(f"{folder} cannot be listed: {error.strerror or error}") from error


def _about(path: str) -> About | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (a Path would cost as much again, millions of times)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ArchiveError(f"{path} cannot be looked at: {error.strerror or error}") from error
    return About(status.st_size, str(status.st_mtime_ns))
