"""A Zarr store on an object store, or on a web server."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal, Self

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from guarded_zarr.errors import GuardError
from guarded_zarr.folders import LARGEST_METADATA, StoreFolder
from guarded_zarr.metadata_json import METADATA_NAMES, require_parsed
from object_stores import Objects, RemoteStore, TooLargeError, answer

_MOST_FOLDERS = 1000


@dataclass(frozen=True)
class ObjectFolder(StoreFolder):
    """What lies below an address.

    Attributes:
        path: the address.
        objects: what lies there.
    """

    path: str
    objects: Objects

    @classmethod
    def of(cls, url: str) -> Self:
        """Return what lies below `url`; raises AddressError where that is no address."""
        objects = Objects.at(url)
        return cls(str(objects.address), objects)

    def kind(self) -> Literal["absent", "file", "folder"]:
        """What there is: a folder is what has something below it."""
        if any(answer(self.objects.abouts(["zarr.json", ".zgroup", ".zarray"]))):
            return "folder"
        return "absent" if answer(self.objects.is_empty()) else "folder"

    def is_there(self, key: str) -> bool:
        """Whether there is anything at or below `key`."""
        return answer(self.objects.about(key)) is not None or not answer(self.objects.is_empty(key))

    def folders(self, key: str) -> list[str]:
        """The names in `key` that have something below them, in order; all but the first thousand are left out."""
        return answer(self.objects.children(key))[0][:_MOST_FOLDERS]

    def open(self, key: str, largest: int) -> io.BytesIO:
        """Fetch a chunk.

        Raises:
            GuardError: it has more bytes than `largest`.
            OSError: it is not there (FileNotFoundError), or can't be had (StoreFaultError).
        """
        try:
            return io.BytesIO(answer(self.objects.get(key, largest)))
        except TooLargeError as error:
            raise GuardError(str(error)) from error

    def metadata(self, key: str) -> bytes:
        """Return a metadata file; raises as `open`."""
        return self.open(key, LARGEST_METADATA).getvalue()

    def ends(self, key: str, nbytes: int, *, first: bool) -> tuple[int, bytes]:
        """An object's length, and its first or last `nbytes` bytes, or all if it has fewer; raises as `open`."""
        about = answer(self.objects.about(key))
        if about is None:
            raise FileNotFoundError(self.place(key))
        if not about.size:
            return 0, b""
        begin = 0 if first else max(0, about.size - nbytes)
        return about.size, bytes(answer(self.objects.part(key, begin, min(about.size, begin + nbytes))))


class GuardedObjectStore(RemoteStore):
    """A read-only store of which no metadata is ambiguous, and nothing longer than it can rightly be.

    Args:
        objects: what lies below its address.
        largest_chunk: the most bytes that a chunk may have; None is no limit.
    """

    def __init__(self, objects: Objects, *, read_only: bool = True, largest_chunk: int | None = None) -> None:
        super().__init__(objects, read_only=True)
        self.largest_chunk = largest_chunk

    def limit_chunks(self, largest: int) -> None:
        """Refuse chunks with more bytes than `largest` from now on."""
        self.largest_chunk = largest

    def with_read_only(self, read_only: bool = True) -> GuardedObjectStore:
        """Return this store: it is for reading, whatever is asked."""
        return type(self)(self.objects, largest_chunk=self.largest_chunk)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes at `key`, or None if nothing is there.

        Raises:
            GuardError: what is there is not read.
            StoreFaultError: it can't be had.
        """
        name = key.rpartition("/")[2]
        is_metadata = name in METADATA_NAMES
        try:
            content = await self._read(key, byte_range, LARGEST_METADATA if is_metadata else self.largest_chunk)
        except FileNotFoundError:
            return None
        except TooLargeError as error:
            raise GuardError(str(error)) from error
        if is_metadata:
            require_parsed(name, bytes(content))
        return (prototype or default_buffer_prototype()).buffer.from_bytes(content)
