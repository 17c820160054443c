"""Small files beside a dataset, in a folder of their own: on a file system, or on an object store.

Each is written whole or not at all, under another name that is then changed, or, on an object store, as any object is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from pathlib import Path

PARTIAL = r"(\.[0-9a-f]+\.(partial|\d+))?"
"""A regular expression: what names end with of files that are half-written, and of parts of files of lines."""


class LineLog(ABC):
    """A file that lines are added to."""

    @abstractmethod
    def append(self, line: bytes) -> None:
        """Add a line, or several; raises OSError where the system refuses, be it what was added before."""

    @abstractmethod
    def close(self) -> None:
        """Wait until all lines are kept; raises as `append`."""


class SideFolder(ABC):
    """A folder of small files.

    Attributes:
        place: its path or address, for people.
    """

    place: str

    @abstractmethod
    def is_there(self) -> bool:
        """Whether there is anything at its place."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""

    @abstractmethod
    def make(self) -> None:
        """Make it, unless it is there."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all that is in it; none if it is not there."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """What a file holds; raises FileNotFoundError where there is none, OSError where it can't be read."""

    @abstractmethod
    def is_file(self, name: str) -> bool:
        """Whether there is such a file, and no link to one."""

    @abstractmethod
    def replace(self, name: str, content: bytes, *, durably: bool = True) -> None:
        """Write a file, in place of one that is there, whole or not at all.

        Args:
            name: its name.
            content: what it is to hold.
            durably: also where the machine loses its power at once.

        Raises:
            OSError: that is refused.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove the folder with all that is in it, as far as the system lets us."""

    @abstractmethod
    def begin_log(self, name: str, lines: bytes) -> None:
        """Write a file of lines, in place of one that is there, whole or not at all."""

    @abstractmethod
    def read_log(self, name: str) -> bytes:
        """All lines of a file; raises as `read`."""

    @abstractmethod
    def log(self, name: str) -> LineLog:
        """The file of lines, which is there, to add some."""


class LocalSideFolder(SideFolder):
    """A folder of a file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)

    def is_there(self) -> bool:
        """Whether there is anything at its place."""
        return os.path.lexists(self._folder)

    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""
        return self._folder.is_dir() and not self._folder.is_symlink()

    def make(self) -> None:
        """Make it, unless it is there."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The names of all that is in it; none if it is not there."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return [entry.name for entry in self._folder.iterdir()]
        return []

    def read(self, name: str) -> bytes:
        """What a file holds."""
        return (self._folder / name).read_bytes()

    def is_file(self, name: str) -> bool:
        """Whether there is such a file, and no link to one."""
        return (self._folder / name).is_file() and not (self._folder / name).is_symlink()

    def replace(self, name: str, content: bytes, *, durably: bool = True) -> None:
        """Write a file, in place of one that is there, whole or not at all."""
        half_written = self._folder / f"{name}.{uuid.uuid4().hex}.partial"
        try:
            with half_written.open("wb") as file:
                file.write(content)
                if durably:
                    file.flush()
                    os.fsync(file.fileno())
            half_written.replace(self._folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                half_written.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove the folder with all that is in it, as far as the system lets us."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def begin_log(self, name: str, lines: bytes) -> None:
        """Write a file of lines, in place of one that is there, whole or not at all."""
        self.replace(name, lines)

    def read_log(self, name: str) -> bytes:
        """All lines of a file."""
        return self.read(name)

    def log(self, name: str) -> LineLog:
        """The file of lines, to add some."""
        return _LocalLog(self._folder / name)


class _LocalLog(LineLog):
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append(self, line: bytes) -> None:
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        os.close(self._file)
