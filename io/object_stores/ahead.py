"""Objects that are on their way before they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Self

from zarr.core.sync import _get_loop

from object_stores.objects import Objects


class FetchedAhead:
    """Objects of a store, those that are expected fetched while others are being used; for one thread.

    Args:
        objects: the store's.
        at_once: the most that are on their way or waiting to be used.
        largest: the most bytes that one may have.
    """

    def __init__(self, objects: Objects, at_once: int, largest: int) -> None:
        self._objects, self._at_once, self._largest = objects, at_once, largest
        self._coming: dict[str, Future[memoryview]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._coming.values():
            future.cancel()
        self._coming.clear()

    def expect(self, keys: Iterable[str]) -> None:
        """Begin to fetch as many of `keys` as may be on their way, the first ones first."""
        for key in keys:
            if len(self._coming) >= self._at_once:
                return
            if key not in self._coming:
                question = self._objects.get(key, self._largest)
                self._coming[key] = asyncio.run_coroutine_threadsafe(question, _get_loop())

    def take(self, key: str) -> memoryview:
        """The object at `key`; raises as `Objects.get`."""
        self.expect([key])
        if (future := self._coming.pop(key, None)) is not None:
            return future.result()
        return asyncio.run_coroutine_threadsafe(self._objects.get(key, self._largest), _get_loop()).result()
