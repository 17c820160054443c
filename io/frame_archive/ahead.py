"""Chunks of an archive on an object store, fetched while those before them are decoded and used."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Protocol, Self

from guarded_zarr import GuardError, ObjectFolder, StoreFolder
from guarded_zarr.folders import OpenedFile
from object_stores import FetchedAhead, TooLargeError

# At a store's 20 to 100 ms an answer, so many on their way keep a link busy that one at a time would leave idle.
_MOST_AHEAD = 16
BYTES_AHEAD = 64 << 20
"""Decoded bytes of chunks that are on their way for one thread, at most, unless two chunks are more."""


class ChunkSource(Protocol):
    """What chunks are read from: a store's folder, or what was fetched of it ahead."""

    def open(self, key: str, largest: int) -> OpenedFile:
        """Open a chunk; see `guarded_zarr.StoreFolder.open`."""


class ChunksAhead:
    """Chunks that are fetched before they are needed, by one thread; of a local archive, none.

    Args:
        folder: the archive's.
        chunk_nbytes: bytes of a decoded chunk: no more than 64 MiB of them are on their way.
        largest: the most bytes that one can rightly have as it is stored.
    """

    def __init__(self, folder: StoreFolder, chunk_nbytes: int, largest: int) -> None:
        self._folder = folder
        at_once = max(2, min(_MOST_AHEAD, BYTES_AHEAD // max(chunk_nbytes, 1)))
        self._fetched: FetchedAhead | None = None
        if isinstance(folder, ObjectFolder):
            self._fetched = FetchedAhead(folder.objects, at_once, largest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fetched is not None:
            self._fetched.__exit__()

    @property
    def is_local(self) -> bool:
        """Whether there is nothing to fetch."""
        return self._fetched is None

    def expect(self, keys: Iterable[str]) -> None:
        """Begin to fetch the first of these chunks."""
        if self._fetched is not None:
            self._fetched.expect(keys)

    def open(self, key: str, largest: int) -> OpenedFile:
        """Open a chunk that was expected, or any other."""
        if self._fetched is None:
            return self._folder.open(key, largest)
        try:
            return io.BytesIO(self._fetched.take(key))
        except TooLargeError as error:
            raise GuardError(str(error)) from error
