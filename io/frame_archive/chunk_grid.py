"""The chunks of an array: their numbers, their coordinates, and what their names look like."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import zarr

from frame_archive.errors import ArchiveError
from object_stores import About

Grid = Sequence[range]
"""A box of chunks: their coordinates along each axis. Its chunks are numbered from 0 in C order."""


def coordinates_in(grid: Grid, number: int) -> tuple[int, ...]:
    """Return the coordinates of chunk `number` of `grid`."""
    coordinates = []
    for side in reversed(grid):
        number, place = divmod(number, len(side))
        coordinates.append(side[place])
    return tuple(reversed(coordinates))


def number_in(grid: Grid, coordinates: Sequence[int]) -> int | None:
    """Return the number of the chunk with these coordinates; None if it is not in `grid`."""
    number = 0
    for at, side in zip(coordinates, grid, strict=True):
        if at not in side:
            return None
        number = number * len(side) + at - side.start
    return number


class StoredChunks(Protocol):
    """The chunks of an array that are there."""

    def abouts(self, grid: Grid) -> Iterator[tuple[int, About]]:
        """Yield the number of each chunk of `grid` that is there and what its store says of it, in order.

        Raises:
            ArchiveError: the store does not say.
        """


@dataclass(frozen=True)
class ChunkNames:
    """How the chunks of an array are named.

    Attributes:
        separator: between coordinates, `/` or `.`.
        before: what comes before them, in parts.
    """

    separator: str
    before: tuple[str, ...]

    @classmethod
    def of(cls, array: "zarr.Array[Any]", place: str) -> "ChunkNames":
        """Return how the chunks of `array`, which lies at `place`, are named.

        Raises:
            ArchiveError: in a way that is not known here.
        """
        key = array.metadata.encode_chunk_key((0,) * array.ndim)
        separator = "/" if "/" in key else "."
        names = key.split(separator)
        before = tuple(names[: -array.ndim])
        if names[len(before) :] != ["0"] * array.ndim:
            raise ArchiveError(f"{place} names its chunks in a way that is not supported, like {key!r}")
        return cls(separator, before)
