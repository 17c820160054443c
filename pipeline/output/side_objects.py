"""Small objects beside a dataset on an object store, in the place of a folder's files.

An object can only be replaced, so a file of lines is several of them. Lines that come while some are being sent wait
and go together, and a part that has become large is left as it is. A small object names the parts that count, so that
those of an earlier file are out of date at once.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor

from object_stores import Objects, StoreFaultError, answer, listed
from pipeline.output.side_folder import LineLog, SideFolder

_PART_BYTES = 256 << 10


class ObjectSideFolder(SideFolder):
    """What lies below an address.

    Args:
        objects: what lies there.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.place = objects.place()

    def is_there(self) -> bool:
        """Whether there is anything at its place."""
        return not answer(self._objects.is_empty())

    def is_folder(self) -> bool:
        """Whether there is anything: what lies below an address is in a folder."""
        return self.is_there()

    def make(self) -> None:
        """Do nothing: there are no folders."""

    def names(self) -> list[str]:
        """The names of all that is in it."""
        return [name for name, _ in listed(self._objects)]

    def read(self, name: str) -> bytes:
        """What an object holds."""
        return bytes(answer(self._objects.get(name)))

    def is_file(self, name: str) -> bool:
        """Whether there is such an object."""
        return answer(self._objects.about(name)) is not None

    def replace(self, name: str, content: bytes, *, durably: bool = True) -> None:
        """Write an object, in place of one that is there."""
        answer(self._objects.put(name, content))

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        answer(self._objects.delete(name))

    def remove_all(self) -> None:
        """Remove everything, as far as the store lets us."""
        try:
            answer(self._objects.delete(*self.names()))
        except StoreFaultError:
            return

    def begin_log(self, name: str, lines: bytes) -> None:
        """Write a file of lines, in place of one that is there, whole or not at all."""
        stem = f"{name}.{uuid.uuid4().hex}"
        self.replace(f"{stem}.0", lines)
        self.replace(name, stem.encode())
        before = [key for key in self.names() if key.startswith(f"{name}.") and not key.startswith(f"{stem}.")]
        answer(self._objects.delete(*before))

    def read_log(self, name: str) -> bytes:
        """All lines of a file."""
        return b"".join(self.read(part) for part in self._parts(self.read(name).decode(errors="replace")))

    def log(self, name: str) -> LineLog:
        """The file of lines, to add some."""
        stem = self.read(name).decode()
        return _ObjectLog(self._objects, stem, len(self._parts(stem)))

    def _parts(self, stem: str) -> list[str]:
        numbers = [name.removeprefix(f"{stem}.") for name in self.names() if name.startswith(f"{stem}.")]
        return [f"{stem}.{number}" for number in sorted(int(text) for text in numbers if text.isdigit())]


class _ObjectLog(LineLog):
    def __init__(self, objects: Objects, stem: str, number: int) -> None:
        self._objects, self._stem, self._number = objects, stem, number
        self._part = bytearray()
        self._waiting: list[bytes] = []
        self._lock = threading.Lock()
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="photonflow-journal")
        self._sending: Future[None] | None = None

    def append(self, line: bytes) -> None:
        with self._lock:
            self._waiting.append(line)
            if self._sending is not None and not self._sending.done():
                return
            sent, self._sending = self._sending, self._sender.submit(self._send)
        if sent is not None:
            sent.result()

    def close(self) -> None:
        self._sender.shutdown()
        if self._sending is not None:
            self._sending.result()
        if self._waiting:  # They came just when the last ones had been sent.
            self._send()

    def _send(self) -> None:
        while True:
            with self._lock:
                lines, self._waiting = b"".join(self._waiting), []
            if not lines:
                return
            self._part += lines
            answer(self._objects.put(f"{self._stem}.{self._number}", bytes(self._part)))
            if len(self._part) > _PART_BYTES:
                self._number += 1
                self._part.clear()
