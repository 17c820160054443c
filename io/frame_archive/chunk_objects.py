"""Which chunks of an array are on an object store: asked for one by one, or listed, whichever takes less."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import zarr

from frame_archive.chunk_grid import ChunkNames, Grid, coordinates_in, number_in
from frame_archive.errors import ArchiveError
from guarded_zarr import ObjectFolder
from object_stores import AT_ONCE, About, Objects, StoreFaultError, answer, listed

# A store lists so many objects an answer, one answer after the other.
_LISTED_AN_ANSWER = 1000
# So many chunks at most are asked for one by one, whatever the metadata claims; a web server, which lists none, is not
# asked for more than the second figure.
_MOST_ASKED = 8192
_ASKED_OF_A_WEB_SERVER = 1024


@dataclass(frozen=True)
class ChunkObjects:
    """The objects of an array's chunks (or shards).

    Attributes:
        objects: of the store.
        array: opened.
        names: how the chunks are named.
    """

    objects: Objects
    array: "zarr.Array[Any]"
    names: ChunkNames

    @classmethod
    def of(cls, array: "zarr.Array[Any]", folder: ObjectFolder) -> "ChunkObjects":
        """Return the chunk objects of `array` in the store `folder`.

        Raises:
            ArchiveError: the chunks have names of a kind that is not known here.
        """
        return cls(folder.objects, array, ChunkNames.of(array, folder.place(array.path)))

    def abouts(self, grid: Grid) -> Iterator[tuple[int, About]]:
        """Yield the number of each chunk of `grid` that is there and what the store says of it, in order.

        Of very many chunks on a web server, which lists nothing, the first ones alone are asked for, and all others are
        taken to be there: one that is not is an error when it is read.

        Raises:
            ArchiveError: the store does not say.
        """
        try:
            yield from self._abouts(grid)
        except StoreFaultError as error:
            raise ArchiveError(str(error)) from error

    def _abouts(self, grid: Grid) -> Iterator[tuple[int, About]]:
        n_wanted = prod(map(len, grid))
        if self.objects.address.is_web:
            yield from self._asked(grid, min(n_wanted, _ASKED_OF_A_WEB_SERVER))
            yield from ((number, About(0, "")) for number in range(_ASKED_OF_A_WEB_SERVER, n_wanted))
            return
        sides = self.array.shards or self.array.chunks
        n_claimed = prod(-(-length // side) for length, side in zip(self.array.shape, sides, strict=True))
        if n_wanted <= _MOST_ASKED and n_wanted / AT_ONCE <= max(1, n_claimed / _LISTED_AN_ANSWER):
            yield from self._asked(grid, n_wanted)
        else:
            yield from sorted(self._listed(grid))

    def _asked(self, grid: Grid, n: int) -> Iterator[tuple[int, About]]:
        at_once = 32 * AT_ONCE
        for first in range(0, n, at_once):
            numbers = range(first, min(first + at_once, n))
            keys = [self._prefix + self.array.metadata.encode_chunk_key(coordinates_in(grid, k)) for k in numbers]
            for number, about in zip(numbers, answer(self.objects.abouts(keys)), strict=True):
                if about is not None:
                    yield number, about

    def _listed(self, grid: Grid) -> Iterator[tuple[int, About]]:
        before, separator = self.names.before, self.names.separator
        form = re.compile(
            re.escape(self._prefix + "".join(f"{name}{separator}" for name in before))
            + re.escape(separator).join(["(0|[1-9][0-9]*)"] * len(grid))
        )
        folder = self._prefix + ("/".join(before) if separator == "/" else "")
        for key, about in listed(self.objects, folder.rstrip("/")):
            match = form.fullmatch(key)
            number = None if match is None else number_in(grid, [int(at) for at in match.groups()])
            if number is not None:
                yield number, about

    @property
    def _prefix(self) -> str:
        return f"{self.array.path}/" if self.array.path else ""
