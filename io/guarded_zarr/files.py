"""Opening files of a local store: ordinary ones that lie in it, and nothing else.

A store that came from elsewhere may hold a named pipe, on which reading waits for ever, a device that never ends, or a
link to a file that is none of the store's business. A link to a place within the store is followed, and the store
itself may be a link: facilities keep data behind links. A link that leaves the store is refused.
"""

import errno
import os
import stat
from io import FileIO

from guarded_zarr.errors import RefusedError

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


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
