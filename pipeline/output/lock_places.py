"""The place of the small file beside a dataset that says who writes it, where the dataset is on a file system."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class LockPlace(ABC):
    """Where a run says that it writes a dataset.

    Attributes:
        place: the path or address, for people.
    """

    place: str

    @abstractmethod
    def read(self) -> bytes | None:
        """What is said there; None if nothing is. Raises OSError where that can't be told."""

    @abstractmethod
    def is_ordinary(self) -> bool:
        """Whether what is there is a file of its own, and no folder or link; also if nothing is there."""

    @abstractmethod
    def take(self, content: bytes, may: Callable[[bytes | None], None]) -> bytes | None:
        """Say something there, in one step with what was there before; returns that.

        Args:
            content: What to say.
            may: Raises where what was there may not be replaced.

        Raises:
            OSError: It can't be written.
        """

    @abstractmethod
    def touch(self, content: bytes) -> None:
        """Say it again, if it is what is still said there; raises OSError where that is refused."""

    @abstractmethod
    def remove(self, content: bytes) -> None:
        """Take back what was said, if it is what is still said there; raises OSError where that is refused."""

    @abstractmethod
    def age(self) -> float:
        """How long ago something was said there, in s, by the clock of where it is: machines' clocks differ."""


class LockFile(LockPlace):
    """A file beside the dataset.

    To read and replace it takes a lock of the system's (``flock``), so that of two runs that begin at the same moment
    only one gets the place.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = str(path)

    def read(self) -> bytes | None:
        """What is said there."""
        try:
            return self._path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_ordinary(self) -> bool:
        """Whether what is there is a file of its own."""
        try:
            return stat.S_ISREG(self._path.lstat().st_mode)
        except FileNotFoundError:  # perhaps only just: its writer has ended
            return True

    def take(self, content: bytes, may: Callable[[bytes | None], None]) -> bytes | None:
        """Say something there, in one step with what was there before."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with self._locked() as file:
                # Whoever had the lock before may have removed the file that was opened here.
                if not self._is(file):
                    continue
                before = self.read()
                may(before)
                os.ftruncate(file, 0)
                if os.pwrite(file, content, 0) < len(content):
                    raise OSError(28, os.strerror(28), self.place)
                return before

    def touch(self, content: bytes) -> None:
        """Say it again."""
        if self.read() == content:
            os.utime(self._path)

    def remove(self, content: bytes) -> None:
        """Take back what was said."""
        with self._locked():
            if self.read() == content:
                self._path.unlink()

    def age(self) -> float:
        """How long ago something was said there, in s."""
        probe = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}")
        try:
            touched = self._path.stat().st_mtime
            probe.touch()
            now = probe.stat().st_mtime
        except OSError:
            return 0.0
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
        return now - touched

    @contextmanager
    def _locked(self) -> Iterator[int]:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            # A file system without such locks leaves a moment in which two runs may both begin; the later one then
            # stops the other at its next write, for the dataset says whose it is.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _is(self, file: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(file))
        except FileNotFoundError:
            return False
