"""What a dataset says of how it came about."""

from __future__ import annotations

import platform
import socket
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path


def history_line(command: str) -> str:
    """A CF ``history`` line: when, and which command."""
    return f"{datetime.now(UTC).isoformat(timespec='seconds')}: {command}"


@cache
def versions() -> str:
    """photonflow, Python, and the libraries that decide what is computed and written."""
    names = ("photonflow", "numpy", "numba", "zarr", "dask", "distributed")
    return ", ".join([*(f"{name} {metadata.version(name)}" for name in names), f"python {platform.python_version()}"])


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def cpu_model() -> str:
    """The processor of this machine, as it calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
