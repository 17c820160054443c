"""Whose fault a failure is: the batch's own, which may be skipped, or the disk's, which ends the run.

The text of an error is all that is sure to come from a worker, so it is told apart there, by its kind.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from cluster_store import DatasetError, FrameStatus
from frame_archive import ArchiveError
from object_stores import StoreFaultError
from pipeline.errors import OutputError

_NO_FILES_LEFT = "allow more open files (ulimit -n) or use fewer workers"
REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room in your quota",
    errno.EFBIG: "allow larger files there (ulimit -f)",
    errno.EROFS: "make it writable again",
    errno.EACCES: "make it writable again",
    errno.EPERM: "make it writable again",
    errno.EMFILE: _NO_FILES_LEFT,
    errno.ENFILE: _NO_FILES_LEFT,
}
# What a machine runs out of whichever file is read: no fault of the file's.
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT))


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Write the dataset or its journal at ``place``.

    Raises:
        OutputError: The system refuses; one sentence says where, why, and what to do.
    """
    try:
        yield
    except StoreFaultError as error:
        raise OutputError(f"{place} can't be written: {error.strerror}") from error
    except OSError as error:
        # Without a number it is not the system's, and a sentence already; a cluster's connections are no disk's.
        if error.errno is None or isinstance(error, ConnectionError | TimeoutError):
            raise
        raise OutputError(f"{place} can't be written: {_refusal(error)}") from error


@contextmanager
def reading_frames() -> Iterator[None]:
    """Read frames of an archive.

    Raises:
        OutputError: The machine has run out of something, so that no file can be read; or the object store that the
            frames are on can't be reached, refuses or fails: no fault of this batch's.
    """
    try:
        yield
    except ArchiveError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, StoreFaultError):
                raise OutputError(str(error)) from error
            if isinstance(cause, OSError) and cause.errno in _EXHAUSTED:
                raise OutputError(f"{error}; {REMEDIES[cause.errno]}") from error
            cause = cause.__cause__ or cause.__context__
        raise


def status_of(cause: BaseException | None) -> FrameStatus | None:
    """What the frames of a batch are that failed with ``cause``; None where the batch isn't to blame."""
    if isinstance(cause, ArchiveError):
        return FrameStatus.UNREADABLE
    if cause is None or isinstance(cause, OutputError | DatasetError):
        return None
    return FrameStatus.FAILED


def _refusal(error: OSError) -> str:
    assert error.errno is not None
    remedy = REMEDIES.get(error.errno, "see to it that the disk is there")
    return f"{error.strerror or os.strerror(error.errno)}; {remedy}"
