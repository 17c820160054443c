"""The objects below one address: asked for, several at a time, and written whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from zarr.core.sync import sync

from object_stores.addresses import ObjectAddress
from object_stores.connecting import connected, patience_seconds, silence
from object_stores.errors import StoreFaultError, TakenError
from object_stores.waiting import answered

PART_BYTES = 8 << 20
"""What is larger is asked for in parts of so many bytes, all at once: one connection is slower than the store."""

AT_ONCE = 32
"""So many requests at a time."""

_T = TypeVar("_T")


class About(NamedTuple):
    """What a store says of an object.

    Attributes:
        size: bytes.
        version: another one when it has been written since: its entity tag, or its time.
        generation: its number among its versions, where the store counts them.
    """

    size: int
    version: str
    generation: str | None = None


class TooLargeError(ValueError):
    """An object that has more bytes than what is asked for can rightly have."""


@dataclass(frozen=True)
class Objects:
    """The objects below an address; a connection is made when something is asked for, by whichever process asks.

    Whatever goes wrong is a `StoreFaultError`, in one sentence and without secrets, after a failing request has been
    tried again for some time (see `object_stores.connecting`).

    Attributes:
        address: of all of them.
    """

    address: ObjectAddress

    @classmethod
    def at(cls, url: str) -> Objects:
        """The objects below `url`.

        Raises:
            AddressError: it is no address of a store.
        """
        return cls(ObjectAddress.parse(url))

    def place(self, key: str = "") -> str:
        """The address of an object, for people."""
        return f"{self.address}/{key}" if key else str(self.address)

    @property
    def store(self) -> Any:
        """The store as obstore has it."""
        return connected(self.address)

    async def get(self, key: str, largest: int | None = None) -> memoryview:
        """All bytes of an object.

        Raises:
            FileNotFoundError: there is none.
            TooLargeError: it has more bytes than `largest`.
            StoreFaultError: it can't be had.
        """
        import obstore

        async def ask() -> memoryview:
            begun = await obstore.get_async(self.store, key)
            size = begun.meta["size"]
            if largest is not None and size > largest:
                raise TooLargeError(f"it has {size} bytes, more than can rightly be there")
            if size <= PART_BYTES or self.address.is_web:
                return _bytes(await begun.bytes_async(), size)
            del begun
            return await self._in_parts(key, size)

        return await self._answered(key, "read", ask)

    async def _answered(self, key: str, task: str, ask: Callable[[], Awaitable[_T]], *, repeats: bool = True) -> _T:
        place, wait = self.place(key), (silence(self.address), patience_seconds())
        return await answered(place, task, ask, *wait, repeats=repeats)

    async def _in_parts(self, key: str, size: int) -> memoryview:
        whole = bytearray(size)
        view, gate = memoryview(whole), asyncio.Semaphore(AT_ONCE)

        async def fetch(first: int) -> None:
            stop = min(first + PART_BYTES, size)
            async with gate:
                view[first:stop] = await self.part(key, first, stop)

        await asyncio.gather(*(fetch(first) for first in range(0, size, PART_BYTES)))
        return view

    async def part(self, key: str, first: int, stop: int) -> memoryview:
        """Bytes `first` to `stop` of an object, of which it has more than `first`.

        Raises:
            FileNotFoundError: there is none.
            StoreFaultError: it can't be had.
        """
        import obstore

        async def ask() -> memoryview:
            return _bytes(await obstore.get_range_async(self.store, key, start=first, end=stop))

        return await self._answered(key, "read", ask)

    async def about(self, key: str) -> About | None:
        """What the store says of an object; None if there is none.

        Raises:
            StoreFaultError: it does not say.
        """
        import obstore

        async def ask() -> About:
            return _about(await obstore.head_async(self.store, key))

        try:
            return await self._answered(key, "looked at", ask)
        except FileNotFoundError:
            return None

    async def abouts(self, keys: Sequence[str]) -> list[About | None]:
        """What the store says of several objects."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(key: str) -> About | None:
            async with gate:
                return await self.about(key)

        return list(await asyncio.gather(*(ask(key) for key in keys)))

    async def written(self, key: str) -> datetime | None:
        """When an object was written, by the store's clock; None if there is none."""
        import obstore

        async def ask() -> datetime:
            found: datetime = (await obstore.head_async(self.store, key))["last_modified"]
            return found

        try:
            return await self._answered(key, "looked at", ask)
        except FileNotFoundError:
            return None

    async def listed(self, folder: str = "") -> AsyncIterator[tuple[str, About]]:
        """All objects below `folder`, in the store's order.

        Raises:
            StoreFaultError: the store does not say; a web server never does.
        """
        import obstore

        place = self.place(folder)
        if self.address.is_web:
            raise StoreFaultError(place, "listed", "a web server does not tell what it has")
        pages: Any = None
        last: str | None = None

        async def turn() -> Any:
            nonlocal pages
            pages, before = None, pages
            # Where a page did not come the list is begun again behind the last one.
            going = before if before is not None else obstore.list(self.store, prefix=folder or None, offset=last)
            try:
                page = await going.__anext__()
            except StopAsyncIteration:
                return None
            pages = going
            return page

        while (page := await self._answered(folder, "listed", turn)) is not None:
            for each in page:
                last = each["path"]
                yield each["path"], _about(each)

    async def is_empty(self, folder: str = "") -> bool:
        """Whether there is nothing below `folder`; of a web server, which does not tell, always.

        Raises:
            StoreFaultError: there is no such bucket, or the store does not say.
        """
        if self.address.is_web:
            return True
        async for _ in self.listed(folder):
            return False
        return True

    async def children(self, folder: str = "") -> tuple[list[str], list[str]]:
        """The names directly below `folder`: of what has something below it, and of objects; a web server tells none.

        Raises:
            StoreFaultError: the store does not say.
        """
        import obstore

        if self.address.is_web:
            return [], []

        async def ask() -> Any:
            return await obstore.list_with_delimiter_async(self.store, prefix=folder or None)

        found = await self._answered(folder, "listed", ask)
        folders = [prefix.rstrip("/") for prefix in found["common_prefixes"]]
        # Some servers go on telling of a folder whose objects have all been removed.
        are_empty = await asyncio.gather(*(self.is_empty(path) for path in folders))
        names = [path.rpartition("/")[2] for path, is_empty in zip(folders, are_empty, strict=True) if not is_empty]
        return sorted(names), sorted(each["path"].rpartition("/")[2] for each in found["objects"])

    async def put(self, key: str, content: Any) -> None:
        """Write an object, in place of one that is there.

        Raises:
            StoreFaultError: it can't be written.
        """
        self.require_writable()
        import obstore

        async def ask() -> None:
            # One request: parts of a larger one that is broken off would stay in the store, unseen and paid for.
            await obstore.put_async(self.store, key, content, use_multipart=False)

        with _BucketRequest(self.place(key)):
            await self._answered(key, "written", ask)

    async def put_if(self, key: str, content: Any, before: About | None) -> About | None:
        """Write an object if it is what it was; returns what it is from now on, None if it is not what it was.

        Args:
            key: of the object.
            content: its bytes.
            before: what it has to be; None: there has to be none.

        Raises:
            StoreFaultError: it can't be written, or the store knows no such condition.
        """
        self.require_writable()
        import obstore

        mode: Any = "create"
        if before is not None:
            mode = {"e_tag": before.version} | ({"version": before.generation} if before.generation else {})

        async def ask() -> Any:
            return await obstore.put_async(self.store, key, content, mode=mode)

        try:
            with _BucketRequest(self.place(key)):
                put = await self._answered(key, "written", ask, repeats=False)
        except TakenError:
            return None
        return About(len(content), put["e_tag"] or "", put.get("version"))

    async def delete(self, *keys: str) -> None:
        """Remove objects; those that are not there are no matter.

        Raises:
            StoreFaultError: one can't be removed.
        """
        self.require_writable()
        import obstore

        gate = asyncio.Semaphore(AT_ONCE)

        async def remove(key: str) -> None:
            async def ask() -> None:
                await obstore.delete_async(self.store, key)

            async with gate:
                with contextlib.suppress(FileNotFoundError):
                    await self._answered(key, "removed", ask)

        await asyncio.gather(*(remove(key) for key in keys))

    def require_writable(self) -> None:
        """Make sure that this is a store that takes objects.

        Raises:
            StoreFaultError: a web server takes none.
        """
        if self.address.is_web:
            raise StoreFaultError(
                str(self.address),
                "written",
                f"{self.address.scheme}:// addresses are for reading; give a local path, or an address that begins "
                "with s3://, gs:// or az://",
            )


def answer(question: Coroutine[Any, Any, _T]) -> _T:
    """Wait for what was asked of a store, in any thread but that of Zarr's event loop."""
    return sync(question)


def listed(objects: Objects, folder: str = "") -> Iterator[tuple[str, About]]:
    """All objects below `folder`, at once."""

    async def gather() -> list[tuple[str, About]]:
        return [each async for each in objects.listed(folder)]

    return iter(answer(gather()))


class _BucketRequest:
    """Says of a place that takes no object because there is none such that its bucket is not there."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise StoreFaultError(
                self._place, "written", "there is no such bucket; make it, or check its name"
            ) from None


def _about(meta: Any) -> About:
    return About(int(meta["size"]), meta.get("e_tag") or meta["last_modified"].isoformat(), meta.get("version"))


def _bytes(content: Any, size: int | None = None) -> memoryview:
    view = memoryview(content)
    if size is not None and len(view) != size:
        raise OSError(f"the connection broke off after {len(view)} of {size} bytes")
    return view
