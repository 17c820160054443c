"""A Zarr store on an object store, whose errors are sentences and which pickles as its address alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import ObjectStore

from object_stores.objects import Objects


class RemoteStore(ObjectStore[Any]):
    """Zarr's store over obstore.

    Args:
        objects: what lies below its address.
        read_only: whether nothing is written.
    """

    def __init__(self, objects: Objects, *, read_only: bool = False) -> None:
        super().__init__(objects.store, read_only=read_only)
        self.objects = objects

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (type(self), self.objects, self.read_only)

    def __str__(self) -> str:
        return str(self.objects.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.objects == other.objects and self.read_only == other.read_only

    def with_read_only(self, read_only: bool = False) -> RemoteStore:
        """The same store, for reading alone or not."""
        return type(self)(self.objects, read_only=read_only)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes at `key`, or None if nothing is there.

        Raises:
            StoreFaultError: they can't be had.
        """
        prototype = prototype or default_buffer_prototype()
        try:
            content = await self._read(key, byte_range)
        except FileNotFoundError:
            return None
        return prototype.buffer.from_bytes(content)

    async def _read(self, key: str, byte_range: ByteRequest | None, largest: int | None = None) -> memoryview:
        match byte_range:
            case None:
                return await self.objects.get(key, largest)
            case RangeByteRequest(first, stop):
                return await self.objects.part(key, first, stop)
        about = await self.objects.about(key)
        if about is None:
            raise FileNotFoundError(key)
        match byte_range:
            case OffsetByteRequest(offset):
                return await self.objects.part(key, offset, about.size)
            case SuffixByteRequest(suffix):
                return await self.objects.part(key, max(0, about.size - suffix), about.size)
            case _:
                raise TypeError(f"no kind of byte range: {byte_range!r}")

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the bytes of several ranges; raises as `get`."""
        return await asyncio.gather(*(self.get(key, prototype, byte_range) for key, byte_range in key_ranges))

    async def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return await self.objects.about(key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Write an object, whole or not at all."""
        self._check_writable()
        await self.objects.put(key, value.as_numpy_array().tobytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object unless there is one."""
        self._check_writable()
        await self.objects.put_if(key, value.as_numpy_array().tobytes(), None)

    async def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        self._check_writable()
        await self.objects.delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all objects below `prefix`."""
        self._check_writable()
        await self.objects.delete(*[key async for key, _ in self.objects.listed(prefix.rstrip("/"))])

    async def getsize(self, key: str) -> int:
        """Bytes of an object."""
        about = await self.objects.about(key)
        if about is None:
            raise FileNotFoundError(key)
        return about.size

    async def getsize_prefix(self, prefix: str) -> int:
        """Bytes of all objects below `prefix`."""
        return sum([about.size async for _, about in self.objects.listed(prefix.rstrip("/"))])

    def list(self) -> AsyncGenerator[str, None]:
        """The keys of all objects."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        """The keys of all objects below `prefix`."""
        async for key, _ in self.objects.listed(prefix.rstrip("/")):
            yield key

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        """The names directly below `prefix`."""
        folders, objects = await self.objects.children(prefix.rstrip("/"))
        for name in (*folders, *objects):
            yield name


def _opened(kind: type[RemoteStore], objects: Objects, read_only: bool) -> Store:
    return kind(objects, read_only=read_only)
