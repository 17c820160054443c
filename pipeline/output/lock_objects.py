"""The place of the small object beside a dataset on an object store that says who writes it.

It is written on the condition that it is what it was when it was looked at, so that of two runs that begin at the same
moment only one gets the place.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable

from object_stores import About, ObjectAddress, Objects, StoreFaultError, answer
from pipeline.output.lock_places import LockPlace

# Each is lost only if another run has taken the place meanwhile.
_TRIES = 20


class LockObject(LockPlace):
    """An object beside the dataset.

    Args:
        address: its address.
    """

    def __init__(self, address: ObjectAddress) -> None:
        folder, _, self._key = address.key.rpartition("/")
        self._objects = Objects(ObjectAddress(address.scheme, address.bucket, folder))
        self.place = str(address)
        self._mine: About | None = None

    def read(self) -> bytes | None:
        """What is said there."""
        try:
            return bytes(answer(self._objects.get(self._key)))
        except FileNotFoundError:
            return None

    def is_ordinary(self) -> bool:
        """Whether it is an object: it can't be anything else."""
        return True

    def take(self, content: bytes, may: Callable[[bytes | None], None]) -> bytes | None:
        """Say something there, in one step with what was there before."""
        for _ in range(_TRIES):
            about = answer(self._objects.about(self._key))
            before = None if about is None else self.read()
            # What was sent twice, because the first answer got lost, has been taken by this run itself.
            if before == content:
                self._mine = about
                return None
            may(before)
            self._mine = answer(self._objects.put_if(self._key, content, about))
            if self._mine is not None:
                return before
        raise StoreFaultError(
            self.place,
            "written",
            "the store does not write an object on the condition that it is what it was, so that two runs could write "
            "the same dataset; use one that does (If-None-Match and If-Match), or a local output",
        )

    def touch(self, content: bytes) -> None:
        """Say it again; another run that has taken the place keeps it."""
        if self._mine is None:
            return
        self._mine = answer(self._objects.put_if(self._key, content, self._mine))
        if self._mine is None and self.read() == content:
            self._mine = answer(self._objects.about(self._key))

    def remove(self, content: bytes) -> None:
        """Take back what was said."""
        if self.read() == content:
            answer(self._objects.delete(self._key))

    def age(self) -> float:
        """How long ago something was said there, in s."""
        probe = f"{self._key}.{uuid.uuid4().hex}"
        try:
            answer(self._objects.put(probe, b""))
            then, now = (answer(self._objects.written(key)) for key in (self._key, probe))
        except StoreFaultError:
            return 0.0
        finally:
            with contextlib.suppress(StoreFaultError):
                answer(self._objects.delete(probe))
        return 0.0 if then is None or now is None else (now - then).total_seconds()
