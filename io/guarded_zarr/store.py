"""A local Zarr store of which only ordinary files within it are read, each no longer than it can rightly be."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from guarded_zarr.errors import GuardError
from guarded_zarr.files import read_part
from guarded_zarr.local_folder import LocalFolder
from guarded_zarr.metadata_json import METADATA_NAMES, require_parsed


class GuardedStore(LocalStore):
    """A read-only `LocalStore`; see `guarded_zarr.files` for what it refuses.

    Args:
        root: the store's folder.
        largest_chunk: the most bytes that a chunk's file may have; None is no limit.
    """

    def __init__(self, root: Path | str, *, read_only: bool = True, largest_chunk: int | None = None) -> None:
        super().__init__(root, read_only=True)
        self.largest_chunk = largest_chunk
        self._folder = LocalFolder.of(self.root)

    def limit_chunks(self, largest: int) -> None:
        """Refuse files of chunks with more bytes than `largest` from now on."""
        self.largest_chunk = largest

    def with_read_only(self, read_only: bool = True) -> "GuardedStore":
        """Return this store: it is for reading, whatever is asked."""
        return type(self)(self.root, largest_chunk=self.largest_chunk)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes at `key`, or None if nothing is there.

        Raises:
            GuardError: what is there is not read.
            OSError: it cannot be read, or is a folder.
        """
        prototype = prototype or default_buffer_prototype()
        try:
            content = await asyncio.to_thread(self._read, key, byte_range)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return prototype.buffer.from_bytes(content)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the bytes of several ranges; raises as `get`."""
        return await asyncio.gather(*(self.get(key, prototype, byte_range) for key, byte_range in key_ranges))

    def _read(self, key: str, byte_range: ByteRequest | None) -> bytes:
        name = key.rpartition("/")[2]
        if name in METADATA_NAMES:
            content = self._folder.metadata(key)
            require_parsed(name, content)
            return content
        with self._folder.open(key) as file:
            size = file.seek(0, 2)
            if self.largest_chunk is not None and size > self.largest_chunk:
                raise GuardError(f"it has {size} bytes, more than any chunk of the array takes")
            first, stop = _bounds(byte_range, size)
            return read_part(file, first, stop)


def _bounds(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    match byte_range:
        case None:
            first, stop = 0, size
        case RangeByteRequest(start, end):
            first, stop = start, end
        case OffsetByteRequest(offset):
            first, stop = offset, size
        case SuffixByteRequest(suffix):
            first, stop = max(0, size - suffix), size
        case _:
            raise TypeError(f"no kind of byte range: {byte_range!r}")
    if not 0 <= first <= stop <= size:
        raise GuardError(f"bytes {first} to {stop} of it are asked for, and it has {size}")
    return first, stop
