"""A Zarr store in a folder of this machine's file systems."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from guarded_zarr.errors import GuardError, RefusedError
from guarded_zarr.files import open_regular, read_part
from guarded_zarr.folders import LARGEST_METADATA, StoreFolder

_MOST_FOLDERS = 1000


@dataclass(frozen=True)
class LocalFolder(StoreFolder):
    """The folder of a local store.

    Attributes:
        path: as it was given.
        real: the same without links.
    """

    path: str
    real: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Return the folder at `path`, whether or not it is there."""
        return cls(os.fspath(path), os.path.realpath(path))

    def kind(self) -> Literal["absent", "file", "folder"]:
        """What there is."""
        place = Path(self.path)
        if not place.exists():
            return "absent"
        return "folder" if place.is_dir() else "file"

    def is_there(self, key: str) -> bool:
        """Whether there is anything at `key`, be it a link that leads nowhere."""
        return os.path.lexists(self.place(key))

    def folders(self, key: str) -> list[str]:
        """The names of the folders in `key`, in order; links are left out, and all entries but the first thousand."""
        with os.scandir(self.place(key)) as entries:
            found = islice(entries, _MOST_FOLDERS)
            return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))

    def open(self, key: str, largest: int = 0) -> FileIO:
        """Open a file, unbuffered; how large it is can be seen before any of it is read.

        Raises:
            RefusedError: it is no ordinary file, or a link leads out of the store.
            OSError: it is not there, is a folder, or may not be read.
        """
        path = self.place(key)
        file = open_regular(path)
        try:
            self._require_inside(path, file.fileno())
        except BaseException:
            file.close()
            raise
        return file

    def metadata(self, key: str) -> bytes:
        """Return a metadata file; raises as `open`, and a GuardError where it is longer than metadata is."""
        with self.open(key) as file:
            size = file.seek(0, 2)
            if size > LARGEST_METADATA:
                raise GuardError(f"it has {size} bytes, and no metadata is longer than {LARGEST_METADATA}")
            return read_part(file, 0, size)

    def ends(self, key: str, nbytes: int, *, first: bool) -> tuple[int, bytes]:
        """A file's length, and its first or last `nbytes` bytes, or all if it has fewer; raises as `open`."""
        with self.open(key) as file:
            size = file.seek(0, 2)
            begin = 0 if first else max(0, size - nbytes)
            return size, read_part(file, begin, min(size, begin + nbytes))

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
