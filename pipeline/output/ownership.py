"""Who is writing a dataset: one run at a time, known by a small file beside it.

The file says which process of which machine it is, and is touched every few seconds. A writer on the same machine is
looked up among the living processes; one on another machine counts as dead when its file has not been touched for a
minute. To read and replace the file takes a lock of the system's (``flock``), so that of two runs that begin at the
same moment only one gets the place.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import stat
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import psutil

from pipeline.faults import writing
from pipeline.output import provenance

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_TOUCHES = 5.0
SECONDS_TO_COUNT_AS_DEAD = 60.0

# Runs of this process that are at work: one that failed is over although its process lives on, in a notebook say.
_at_work: set[str] = set()
_BEGINNING = b'{"run_id": '


@dataclass(frozen=True)
class Writer:
    """The run that writes a dataset.

    Args:
        run_id: The run.
        host: Its machine, by name.
        machine: Its machine since it was booted, and there the processes that see each other: a container's don't.
        pid: The process of its client.
        began: When that process was started, in clock ticks since boot: another may have its number by now.
    """

    run_id: str
    host: str
    machine: str
    pid: int
    began: float

    @staticmethod
    def here(run_id: str) -> Writer:
        """A run of this process."""
        return Writer(run_id, provenance.host(), _this_machine(), os.getpid(), _began(os.getpid()))

    def __str__(self) -> str:
        mine = self.machine == _this_machine() and self.pid == os.getpid()
        return "this process" if mine else f"process {self.pid} on {self.host}"


def lock_file(out: str) -> Path:
    """The file that says who writes the dataset at ``out``."""
    return Path(f"{out}.lock")


def living_writer(out: str) -> Writer | None:
    """The run that is writing the dataset at ``out`` now; None if none is known to be alive."""
    path = lock_file(out)
    writer = _read(path)
    return writer if writer is not None and _is_alive(writer, path) else None


@contextmanager
def sole_writer(out: str, run_id: str) -> Iterator[Writer | None]:
    """Be the one that writes the dataset at ``out``, and yield the dead writer whose place was taken, if any.

    Raises:
        FileExistsError: Another run is writing it; the message names its process and machine.
        OutputError: The file can't be written.
    """
    path = lock_file(out)
    require_lock_place(out)
    me = Writer.here(run_id)
    with writing(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        before = _take(path, me, out)
    if before is not None:
        logger.info("%s was being written by %s, which has ended", out, before)
    _at_work.add(run_id)
    ended = threading.Event()
    touching = threading.Thread(target=_keep_touching, args=(path, me, ended), name="photonflow-lock", daemon=True)
    touching.start()
    try:
        yield before
    finally:
        ended.set()
        touching.join()
        _at_work.discard(run_id)
        with contextlib.suppress(OSError), _locked(path):
            if _read(path) == me:
                path.unlink()


def require_lock_place(out: str) -> None:
    """Make sure that nothing of anybody else's lies where a run says that it writes ``out``.

    Raises:
        FileExistsError: Something does.
    """
    path = lock_file(out)
    try:
        kind = path.lstat().st_mode
        foreign = not stat.S_ISREG(kind) or not _may_be_ours(path.read_bytes())
    except FileNotFoundError:  # perhaps only just: its writer has ended
        return
    if foreign:
        raise FileExistsError(
            f"{path} is in the way: a run says there that it writes {out}, and that is no such file of photonflow's; "
            "move it, or give --out another place"
        )


def _may_be_ours(content: bytes) -> bool:
    """Whether a run has written this, be it cut off on a full disk, or zeros of a machine that lost its power."""
    return content.startswith(_BEGINNING) or _BEGINNING.startswith(content) or not content.strip(b"\0")


def being_written(out: str, writer: Writer) -> FileExistsError:
    """The refusal to write what another run is writing."""
    return FileExistsError(f"{out} is being written by {writer}: wait for it, end it, or give --out another place")


def _take(path: Path, me: Writer, out: str) -> Writer | None:
    while True:
        with _locked(path) as file:
            # Whoever had the lock before may have removed the file that was opened here.
            if not _is_at(path, file):
                continue
            before = _read(path)
            if before is not None and _is_alive(before, path):
                raise being_written(out, before)
            content = json.dumps(asdict(me)).encode()
            os.ftruncate(file, 0)
            if os.pwrite(file, content, 0) < len(content):
                raise OSError(28, os.strerror(28), str(path))
            return before


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        # A file system without such locks leaves a moment in which two runs may both begin; the later one then stops
        # the other at its next write, for the dataset says whose it is.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _read(path: Path) -> Writer | None:
    try:
        content = json.loads(path.read_bytes())
        run_id, host, machine = (str(content[name]) for name in ("run_id", "host", "machine"))
        return Writer(run_id, host, machine, int(content["pid"]), float(content["began"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _is_alive(writer: Writer, path: Path) -> bool:
    if writer.machine != _this_machine():
        return _age(path) < SECONDS_TO_COUNT_AS_DEAD
    if writer.pid == os.getpid():
        return writer.run_id in _at_work
    try:
        return _began(writer.pid) == writer.began and psutil.Process(writer.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _began(pid: int) -> float:
    """When a process was started: in clock ticks since boot, or in s since 1970 where the system does not tell them.

    A time since 1970 is reckoned from the machine's clock, and changes with it when that is set.
    """
    try:
        # The 22nd field of proc(5); the second one, the program's name, may hold spaces and brackets.
        return float(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return psutil.Process(pid).create_time()


@cache
def _this_machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{provenance.host()} {psutil.boot_time():.0f}"


def _age(path: Path) -> float:
    """How long ago a file was touched, in s, by the clock of its file system: machines' clocks differ."""
    probe = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        touched = path.stat().st_mtime
        probe.touch()
        now = probe.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return now - touched


def _keep_touching(path: Path, me: Writer, ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_TOUCHES):
        with contextlib.suppress(OSError):
            if _read(path) == me:
                os.utime(path)
