"""What a measurement holds for: this hardware, with these drivers and versions."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil

from object_stores import ObjectAddress, is_url
from pipeline.output import provenance


def machine() -> dict[str, str]:
    """Processor, cores, memory, kernel, GPU driver and the libraries that do the work."""
    return {
        "processor": provenance.cpu_model(),
        "cores": str(cores()),
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "gpu": _gpu(),
        "versions": provenance.versions() + f", numcodecs {metadata.version('numcodecs')}",
    }


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_bytes() -> int:
    """The largest cache of a core, its own or shared; 0 if the system does not say."""
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            sizes.append(int(file.read_text().strip().removesuffix("K")) << 10)
    return max(sizes)


def storage_of(path: str) -> str:
    """The file system that a path lies on, in words: its type and device; of an address, the store."""
    if is_url(path):
        address = ObjectAddress.parse(path)
        return f"{address.scheme}://{address.bucket}"
    place = Path(path).resolve()
    while not place.exists():
        place = place.parent
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint), reverse=True)
    for mount in mounts:
        if place.is_relative_to(mount.mountpoint):
            return f"{mount.fstype} on {mount.device}"
    return "an unknown file system"


def _gpu() -> str:
    """The GPUs and their driver, as the driver itself says; ``none`` where there is none."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "none"
    return "; ".join(answer.split("\n")).strip("; ") or "none"
