"""Who is writing a dataset: one run at a time, known by a small file beside it.

The file says which process of which machine it is, and is touched every few seconds. A writer on the same machine is
looked up among the living processes; one on another machine counts as dead when its file has not been touched for a
minute. It is replaced in one step with looking at what it was, so that of two runs that begin at the same moment only
one gets the place: see :mod:`pipeline.output.lock_places` and, on object stores, :mod:`pipeline.output.lock_objects`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import psutil

from object_stores import ObjectAddress, StoreFaultError, is_url
from pipeline.faults import writing
from pipeline.output import provenance
from pipeline.output.lock_objects import LockObject
from pipeline.output.lock_places import LockFile, LockPlace

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_TOUCHES = 5.0
SECONDS_TO_COUNT_AS_DEAD = 60.0
SECONDS_TO_LEAVE = 10.0

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
    """The file that says who writes a local dataset at ``out``."""
    return Path(f"{out}.lock")


def lock_place(out: str) -> LockPlace:
    """Where it is said who writes the dataset at ``out``."""
    return LockObject(ObjectAddress.parse(f"{out}.lock")) if is_url(out) else LockFile(lock_file(out))


def living_writer(out: str) -> Writer | None:
    """The run that is writing the dataset at ``out`` now; None if none is known to be alive.

    Raises:
        StoreFaultError: The object store that it is on does not say.
    """
    place = lock_place(out)
    writer = _writer(_said(place))
    return writer if writer is not None and _is_alive(writer, place) else None


@contextmanager
def sole_writer(out: str, run_id: str) -> Iterator[Writer | None]:
    """Be the one that writes the dataset at ``out``, and yield the dead writer whose place was taken, if any.

    Raises:
        FileExistsError: Another run is writing it; the message names its process and machine.
        OutputError: The file can't be written.
    """
    place = lock_place(out)
    require_lock_place(out)
    content = json.dumps(asdict(Writer.here(run_id))).encode()

    def may(before: bytes | None) -> None:
        writer = _writer(before)
        if writer is not None and _is_alive(writer, place):
            raise being_written(out, writer)

    # Before the place is taken: whoever looks at it must find a run that is at work.
    _at_work.add(run_id)
    try:
        with writing(place.place):
            before = _writer(place.take(content, may))
    except BaseException:
        _at_work.discard(run_id)
        raise
    if before is not None:
        logger.info("%s was being written by %s, which has ended", out, before)
    ended = threading.Event()
    touching = threading.Thread(
        target=_keep_touching, args=(place, content, ended), name="photonflow-lock", daemon=True
    )
    touching.start()
    try:
        yield before
    finally:
        ended.set()
        _at_work.discard(run_id)
        leaving = threading.Thread(
            target=_leave, args=(place, content, touching), name="photonflow-leaving", daemon=True
        )
        leaving.start()
        # What is left behind is known by its dead writer: a store that is gone is not waited for.
        leaving.join(SECONDS_TO_LEAVE)


def require_lock_place(out: str) -> None:
    """Make sure that nothing of anybody else's lies where a run says that it writes ``out``.

    Raises:
        FileExistsError: Something does.
    """
    place = lock_place(out)
    content = place.read() if place.is_ordinary() else b"?"
    if content is not None and not _may_be_ours(content):
        raise FileExistsError(
            f"{place.place} is in the way: a run says there that it writes {out}, and that is no such file of "
            "photonflow's; move it, or give --out another place"
        )


def _may_be_ours(content: bytes) -> bool:
    """Whether a run has written this, be it cut off on a full disk, or zeros of a machine that lost its power."""
    return content.startswith(_BEGINNING) or _BEGINNING.startswith(content) or not content.strip(b"\0")


def being_written(out: str, writer: Writer) -> FileExistsError:
    """The refusal to write what another run is writing."""
    return FileExistsError(f"{out} is being written by {writer}: wait for it, end it, or give --out another place")


def _said(place: LockPlace) -> bytes | None:
    try:
        return place.read()
    except StoreFaultError:
        raise
    except OSError:
        return None


def _writer(said: bytes | None) -> Writer | None:
    try:
        content = json.loads(said or b"")
        run_id, host, machine = (str(content[name]) for name in ("run_id", "host", "machine"))
        return Writer(run_id, host, machine, int(content["pid"]), float(content["began"]))
    except (ValueError, TypeError, KeyError):
        return None


def _is_alive(writer: Writer, place: LockPlace) -> bool:
    if writer.machine != _this_machine():
        return place.age() < SECONDS_TO_COUNT_AS_DEAD
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


def _leave(place: LockPlace, content: bytes, touching: threading.Thread) -> None:
    touching.join()
    with contextlib.suppress(OSError):
        place.remove(content)


def _keep_touching(place: LockPlace, content: bytes, ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_TOUCHES):
        with contextlib.suppress(OSError):
            place.touch(content)
