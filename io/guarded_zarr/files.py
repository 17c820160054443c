"""Opening files of a store: ordinary ones that lie in it, and nothing else.

A store that came from elsewhere may hold a named pipe, on which reading waits for ever, a device that never ends, or a
link to a file that is none of the store's business. A link to a place within the store is followed, and the store
itself may be a link: facilities keep data behind links. A link that leaves the store is refused.
"""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self

from guarded_zarr.errors import GuardError, RefusedError

LARGEST_METADATA = 16 << 20
"""Bytes; parsed, JSON takes some twenty times as many."""

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class StoreFolder:
    """The folder of a local store.

    Attributes:
        path: as it was given.
        real: the same without links.
    """

    path: str
    real: str

    @classmethod
    def of(cls, path: "str | os.PathLike[str]") -> Self:
        """Return the folder at `path`, whether or not it is there."""
        return cls(os.fspath(path), os.path.realpath(path))

    def open(self, path: str) -> FileIO:
        """Open the file at `path`, which begins with this folder's path, unbuffered.

        Raises:
            RefusedError: it is no ordinary file, or a link leads out of the store.
            OSError: it is not there, is a folder, or may not be read.
        """
        file = open_regular(path)
        try:
            self._require_inside(path, file.fileno())
        except BaseException:
            file.close()
            raise
        return file

    def _require_inside(self, path: str, descriptor: int) -> None:
        """Make sure that no link on the way to `path`, opened as `descriptor`, leads out of the store."""
        # What is open says where it lies in one call, where the path takes one for each of its parts.
        with suppress(OSError):
            if self._holds(str(Path(f"/proc/self/fd/{descriptor}").readlink())):
                return
        real = os.path.realpath(path)
        if not self._holds(real):
            raise RefusedError(
                f"it leads to {real}, outside the store, and no such link is followed: `cp -rL` copies a store "
                "together with what its links lead to"
            )

    def _holds(self, real: str) -> bool:
        return real.startswith(self.real.rstrip("/") + "/")

    def metadata(self, path: str) -> bytes:
        """Return what is in the metadata file at `path`; raises as `open`, and where it is longer than metadata is."""
        with self.open(path) as file:
            size = file.seek(0, 2)
            if size > LARGEST_METADATA:
                raise GuardError(f"it has {size} bytes, and no metadata is longer than {LARGEST_METADATA}")
            return read_part(file, 0, size)


def open_regular(path: str) -> FileIO:
    """Open the ordinary file at `path`, wherever it lies, unbuffered.

    Raises:
        RefusedError: it is a pipe, a socket or a device.
        OSError: it is not there, is a folder, or may not be read.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116 (a Path would cost as much again, for every chunk)
    if not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "not a file")
        raise RefusedError(f"it is {kind}, not a file")
    # Without waiting, should a pipe have taken its place since.
    return FileIO(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def read_part(file: FileIO, first: int, stop: int) -> bytes:
    """Return bytes `first` to `stop` of `file`, or as many as there are."""
    file.seek(first)
    parts = []
    while first < stop and (part := file.read(stop - first)):
        parts.append(part)
        first += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
