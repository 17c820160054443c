"""A file for HDF5, which does not bear that a write fails: on a full disk it breaks down with the whole process."""

import io
from pathlib import Path
from typing import BinaryIO, cast


class ForgivingFile:
    """A new file that takes every write: what the disk did not take is kept in memory, and `failure` says why.

    So HDF5 can be closed in good order. Whoever writes looks at `failure` from time to time, and stops.

    Attributes:
        failure: The first write that failed, if one did.
    """

    def __init__(self, place: Path) -> None:
        self.failure: OSError | None = None
        self._file = cast(BinaryIO, place.open("x+b", buffering=0))
        self._kept: list[tuple[int, bytes]] = []
        self._at = 0

    def close(self) -> None:
        """Close the file itself."""
        self._file.close()

    def raise_failure(self) -> None:
        """Raise `failure`, if there is one.

        Raises:
            OSError: That.
        """
        if self.failure is not None:
            raise self.failure

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, counted from the beginning, or from the end."""
        end = max([self._file.seek(0, io.SEEK_END), *(at + len(content) for at, content in self._kept)])
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: end}[whence]
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def write(self, data: memoryview) -> int:
        """Write, to the disk or else to memory."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while self.failure is None and len(rest):
                self._file.seek(self._at)
                written = self._file.write(rest)
                self._at, rest = self._at + written, rest[written:]
        except OSError as failure:
            self.failure = failure
        if len(rest):
            self._kept.append((self._at, bytes(rest)))
            self._at += len(rest)
        return size

    def readinto(self, buffer: memoryview) -> int:
        """Read what was written."""
        wanted = memoryview(buffer).cast("B")
        self._file.seek(self._at)
        found = self._file.read(len(wanted))
        wanted[: len(found)] = found
        for at, content in self._kept:
            first, last = max(at, self._at), min(at + len(content), self._at + len(wanted))
            if first < last:
                wanted[first - self._at : last - self._at] = content[first - at : last - at]
        self._at += len(wanted)
        return len(wanted)

    def read(self, size: int) -> bytes:
        """Likewise."""
        content = bytearray(size)
        self.readinto(memoryview(content))
        return bytes(content)

    def truncate(self, size: int) -> int:
        """Bring it to a length."""
        try:
            self._file.truncate(size)
        except OSError as failure:
            self.failure = self.failure or failure
        return size

    def flush(self) -> None:
        """Nothing waits to be written."""
