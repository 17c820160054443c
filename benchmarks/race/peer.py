"""The peer: aare's cluster finder, asked over a pipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.race.ours import Positions
from benchmarks.race.subjects import Subject
from benchmarks.race.timing import Lap

NEWEST = "2026.9.30"  # Its wheels start at Python 3.12.
SERVER = Path(__file__).with_name("peer_server.py")


class Peer:
    """aare in a process of its own.

    Attributes:
        versions: of aare, and of the NumPy and the Python it runs with.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.versions: dict[str, str] = self._ask({})

    def run(self, subject: Subject, window: tuple[int, int], n_frames: int, threads: int = 1) -> Lap:
        """Find the clusters of a subject's first frames.

        Raises:
            RuntimeError: aare failed; what it said is on stderr.
        """
        return Lap(**self._ask(_request(subject, window, n_frames, threads)))

    def positions(self, subject: Subject, window: tuple[int, int], n_frames: int) -> Positions:
        """(frame, y, x) of the clusters that it finds on one thread, int32 (cluster, 3), in no order."""
        place = self._folder / "peer.npy"
        self._ask(_request(subject, window, n_frames, 1) | {"save": str(place)})
        found: Positions = np.load(place)
        return found

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise RuntimeError("aare's process ended: run the benchmark with --no-peer, or see above why") from error
        return answer


@contextmanager
def peer_at(python: str, folder: Path) -> Iterator[Peer]:
    """The aare that a Python has."""
    # What spares our workers page faults spares them here too.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
    environment.pop("MALLOC_ARENA_MAX", None)
    environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        [python, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Peer(process, folder)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def python_with_aare(home: Path) -> str | None:
    """A Python that has aare: one of 3.12 or later with the newest release, made in `home` if need be; else our own."""
    made = home / "bin" / "python"
    if not _has_aare(str(made)):
        newer = next((found for minor in range(12, 20) if (found := _python(f"python3.{minor}"))), None)
        if newer is not None:
            subprocess.run([newer, "-m", "venv", str(home)], check=False, capture_output=True)
            subprocess.run([str(made), "-m", "pip", "install", "-q", f"aare=={NEWEST}"], check=False)
    return next((python for python in (str(made), sys.executable) if _has_aare(python)), None)


def _python(name: str) -> str | None:
    """Where a Python of this name is that runs: a version manager puts names in place that may lead nowhere."""
    pyenv = Path.home() / ".pyenv" / "versions"
    installed = [str(path) for path in pyenv.glob(f"{name.removeprefix('python')}*/bin/python")]
    for found in (shutil.which(name), *installed):
        if found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:
            return found
    return None


def _has_aare(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", "import aare"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _request(subject: Subject, window: tuple[int, int], n_frames: int, threads: int) -> dict[str, Any]:
    return {
        "frames": str(subject.frames),
        "dark": str(subject.dark),
        "window": list(window),
        "n_sigma": 5,
        "n_frames": n_frames,
        "threads": threads,
    }
