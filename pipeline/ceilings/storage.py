"""Reading an archive's files: from the storage itself, and from the operating system's page cache."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pipeline.ceilings.measured import Spread

REPEATS = 3
BUFFER_BYTES = 4 << 20
LONGEST_READ_SECONDS = 4.0


class StillCachedError(RuntimeError):
    """The page cache keeps the files although it was asked not to."""


def read_rate(files: Sequence[str], threads: int, *, cold: bool) -> Spread:
    """Bytes a second of reading whole files, several at a time.

    Args:
        files: The files.
        threads: How many are read at a time.
        cold: Drop them from the page cache before each repeat; otherwise they are in it.

    Raises:
        StillCachedError: They can't be dropped, as in a file system that lies in memory.
        OSError: A file can't be read.
    """
    own = threading.local()

    def prepare() -> None:
        # Once a thread, and touched: a buffer for each file would time the system's handing out of memory. And at
        # the beginning of a page: into one that begins 48 bytes later some processors copy a quarter as fast.
        own.buffer = mmap.mmap(-1, BUFFER_BYTES)
        own.buffer.write(bytes(BUFFER_BYTES))

    def read(file: str) -> int:
        return _read(file, own.buffer)

    with ThreadPoolExecutor(threads, initializer=prepare) as pool:
        if not cold:
            list(pool.map(read, files))
        rates = []
        for _ in range(REPEATS):
            if cold:
                for file in files:
                    _drop(file)
            begin = time.perf_counter()
            nbytes = sum(pool.map(read, files))
            rates.append(nbytes / (time.perf_counter() - begin))
            if nbytes / rates[-1] > LONGEST_READ_SECONDS:
                break
    return Spread.of(rates if len(rates) > 1 else rates * 2)


def _read(file: str, buffer: mmap.mmap) -> int:
    total = 0
    with Path(file).open("rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            total += count
    return total


def _drop(file: str) -> None:
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        raise StillCachedError("this system can't be asked to drop files from its page cache")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if _is_cached(descriptor) and _answers_at_once(descriptor):
            raise StillCachedError(
                "the page cache keeps the files: the file system lies in memory, somebody has them open, or they are "
                "another user's, of which the system does not say whether it keeps them"
            )
    finally:
        os.close(descriptor)


def _is_cached(descriptor: int) -> bool:
    """Whether a page of a file is in the page cache, or can't be known not to be."""
    nbytes = os.fstat(descriptor).st_size
    if not nbytes:
        return False
    with mmap.mmap(descriptor, nbytes, prot=mmap.PROT_READ) as mapped:
        first = np.frombuffer(mapped, np.uint8)
        in_memory = np.ones(-(-nbytes // mmap.PAGESIZE), np.uint8)
        # Python has no call for it. Looking does not bring a page in.
        failed = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(first.ctypes.data), ctypes.c_size_t(nbytes), ctypes.c_void_p(in_memory.ctypes.data)
        )
        del first  # a mapping that is in use can't be closed
    return bool(failed) or bool((in_memory & 1).any())


def _answers_at_once(descriptor: int) -> bool:
    """Whether a byte comes without waiting: not where storage has to be asked, unless that is very quick."""
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return False
        raise StillCachedError(f"the file system does not say what is cached ({error.strerror})") from error
    return True
