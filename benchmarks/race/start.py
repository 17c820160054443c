"""How long a new process takes until it finds clusters: with nothing compiled yet, and with what another one kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

FIRST_CLUSTERS = """
import numpy as np
from finder import FinderParameters, Pedestal, open_finder
shape = (64, 64)
pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0), n_samples=1000)
frames = np.full((2, *shape), 100, np.uint16)
frames[1, 30, 40] = 900
batch = open_finder("auto", FinderParameters(), shape).find(frames, pedestal)
assert (batch.y.tolist(), batch.x.tolist()) == ([30], [40])
"""


@dataclass(frozen=True)
class Start:
    """Seconds from the start of a process to its end, its first clusters found.

    Attributes:
        compiling: with nothing compiled yet.
        loading: with compiled code on disk; of each process.
    """

    compiling: float
    loading: tuple[float, ...]


def measure_start(repeats: int) -> Start:
    """Start processes, one after the other, that share an empty folder for compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        compiling = _seconds(environment)
        return Start(compiling, tuple(_seconds(environment) for _ in range(repeats)))


def _seconds(environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", FIRST_CLUSTERS], check=True, env=environment)
    return time.perf_counter() - begin
