"""Compiled code on disk, safely for many processes and hosts that share a folder."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Not on Windows: there each process compiles for itself, and the last one's code stays.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

SUFFIX = ".code"
# A lock goes with the process that holds it. One that hangs is waited for no longer than this.
SECONDS_TO_WAIT = 180.0
SECONDS_BETWEEN_LOOKS = 0.05


class CodeStore:
    """The folders that may hold compiled code: it is read from any, and written to the first that takes it."""

    def __init__(self) -> None:
        self._folders = list(_folders())

    def read(self, name: str) -> bytes | None:
        """The code that was written under a name; None if there is none, or it is damaged."""
        for folder in self._folders:
            path = folder / (name + SUFFIX)
            try:
                _require_ours(folder)
                stored = path.read_bytes()
            except OSError:
                continue
            digest, code = stored[:32], stored[32:]
            if hashlib.sha256(code).digest() == digest:
                return code
            logger.warning("%s is damaged: it is compiled again", path)
        return None

    def write(self, name: str, code: bytes) -> None:
        """Keep code under a name, or say that there is no place for it. Others see all of it or nothing."""
        errors = []
        for folder in self._folders:
            try:
                _made(folder)
                with tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False) as file:
                    file.write(hashlib.sha256(code).digest() + code)
                try:
                    Path(file.name).replace(folder / (name + SUFFIX))
                except OSError:
                    Path(file.name).unlink()
                    raise
                return
            except OSError as error:
                errors.append(str(error))
        logger.warning("compiled code can't be kept and is compiled by each process: %s", "; ".join(errors))

    @contextmanager
    def alone(self, name: str, on_wait: Callable[[], object]) -> Iterator[None]:
        """Within, no other process is as well, unless one hangs or locks don't work here.

        Args:
            name: what the processes want to write.
            on_wait: told if another one has to be waited for.
        """
        with contextlib.ExitStack() as opened:
            lock = self._lock(name)
            if lock is not None:
                opened.enter_context(lock)
                _wait_for(lock, on_wait)
            yield
            if lock is not None:
                # Those that wait for it get it all the same, look, and find the code.
                with contextlib.suppress(OSError):
                    Path(lock.name).unlink()

    def _lock(self, name: str) -> IO[bytes] | None:
        for folder in self._folders if fcntl is not None else ():
            with contextlib.suppress(OSError):
                return (_made(folder) / f"{name}.lock").open("ab")
        return None


def _wait_for(lock: IO[bytes], on_wait: Callable[[], object]) -> None:
    deadline, told = time.monotonic() + SECONDS_TO_WAIT, False
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                on_wait()
                told = True
            time.sleep(SECONDS_BETWEEN_LOOKS)
        except OSError:  # The file system knows no locks.
            return
        else:
            return


def _folders() -> Iterator[Path]:
    """NUMBA_CACHE_DIR alone, or beside the source, the user's cache, the user's own folder among the temporary ones."""
    told = os.environ.get("NUMBA_CACHE_DIR")
    if told:
        yield Path(told) / "photonflow"
        return
    yield Path(__file__).parent / "__pycache__"
    with contextlib.suppress(RuntimeError):  # No home is known.
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "photonflow"
    if hasattr(os, "getuid"):
        yield _temporary()


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"photonflow-{os.getuid()}"


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_ours(folder)
    return folder


def _require_ours(folder: Path) -> None:
    """Among temporary files, where anybody may make folders, none is used that others can write to."""
    if hasattr(os, "getuid") and folder == _temporary():
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(f"{folder} is not this user's alone")
