"""How much memory there is, and for how many workers it is enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

# A cgroup without a limit says so with a number that no machine has.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class MemoryThereIs:
    """The memory that processes of this machine may use, in bytes.

    Args:
        total: All of it: the machine's, or less where a cgroup (a container, a batch job) has a limit.
        available: What of it is free, or would be without what the system merely keeps of files.
        limited_by: ``this machine``, or the cgroup with the least to spare.
    """

    total: int
    available: int
    limited_by: str


def memory_there_is(root: Path = Path("/")) -> MemoryThereIs:
    """The memory of this machine and of the cgroups (version 1 or 2) that this process is in.

    Args:
        root: Where ``/proc`` and ``/sys`` are looked for.
    """
    machine = psutil.virtual_memory()
    there_is = MemoryThereIs(machine.total, machine.available, "this machine")
    for group in _cgroups(root):
        limit = _number(group, "memory.max", "memory.limit_in_bytes")
        used = _number(group, "memory.current", "memory.usage_in_bytes")
        if limit is None or used is None or limit >= _NO_LIMIT:
            continue
        available = max(limit - used + _file_cache(group), 0)
        name = f"the cgroup {group}"
        there_is = MemoryThereIs(
            min(there_is.total, limit),
            min(there_is.available, available),
            name if available < there_is.available else there_is.limited_by,
        )
    return there_is


def out_of_memory_kills(root: Path = Path("/")) -> int:
    """How many processes the system has killed for want of memory, here and in this process's cgroups, so far.

    A difference between two calls is what tells; the number by itself counts some of them more than once.
    """
    files = [(root / "proc/vmstat", "oom_kill")]
    files += [
        (group / name, "oom_kill") for group in _cgroups(root) for name in ("memory.events", "memory.oom_control")
    ]
    return sum(_entry(file, key) or 0 for file, key in files)


def bytes_in_words(count: int) -> str:
    """So many bytes of memory, in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _cgroups(root: Path) -> Iterator[Path]:
    """The folders of the memory cgroups that this process is in, inner ones first."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount = root / "sys/fs/cgroup"
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
        else:
            continue
        # Inside a container the path may be that outside, and the container's own group is all that can be seen.
        inside = mount / path.lstrip("/")
        folder = inside if inside.is_dir() else mount
        while True:
            yield folder
            if folder == mount:
                break
            folder = folder.parent


def _file_cache(group: Path) -> int:
    """What the cgroup's memory holds of files that nobody has used lately; it goes when memory is wanted."""
    for key in ("total_inactive_file", "inactive_file"):
        if (value := _entry(group / "memory.stat", key)) is not None:
            return value
    return 0


def _number(group: Path, *names: str) -> int | None:
    for name in names:
        try:
            return int((group / name).read_text())
        except (OSError, ValueError):
            continue
    return None


def _entry(file: Path, key: str) -> int | None:
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        pass
    return None
