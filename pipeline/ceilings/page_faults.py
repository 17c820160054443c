"""What it costs to touch memory for the first time."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.batches.work_clock import minor_faults
from pipeline.ceilings.crew import Done

TOUCHED_BYTES = 16 << 20


@dataclass(frozen=True)
class FirstTouch:
    """Minor page faults: fresh memory, touched once a page.

    The time of touching it again is taken off, so that what is left is the operating system's: finding a page and
    filling it with zeros. Small pages, for those make the number of faults; a huge page takes longer.
    """

    def __str__(self) -> str:
        return "page faults"

    def prepared(self, member: int) -> Callable[[], Done]:
        """Some memory at a time; the amount is the faults that the system counted."""

        def step() -> Done:
            with mmap.mmap(-1, TOUCHED_BYTES) as memory:
                if hasattr(mmap, "MADV_NOHUGEPAGE"):
                    with suppress(OSError):  # a kernel without huge pages
                        memory.madvise(mmap.MADV_NOHUGEPAGE)
                fresh = np.frombuffer(memory, np.uint8)
                faults, seconds = minor_faults(), _touch(fresh)
                faults = minor_faults() - faults
                seconds -= _touch(fresh)
                del fresh
            return Done(faults, max(seconds, 0.0))

        return step


def _touch(memory: npt.NDArray[np.uint8]) -> float:
    begin = time.perf_counter()
    memory[:: mmap.PAGESIZE] = 1
    return time.perf_counter() - begin
