"""What a stage of a run did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StageUse:
    """What one stage of the pipeline (read, decode, find, write; H2D, kernel, D2H) did, summed over all workers.

    Args:
        name: The stage.
        busy_seconds: Time that workers spent in it, in s: two workers busy for 1 s are 2 s.
        nbytes: Bytes that it produced or consumed, uncompressed.
        within: The stage in which a worker waits for this one, which keeps its GPU busy and not the worker; None for
            a stage of the worker's own. Its seconds are the GPU's, and are in that stage's already.
    """

    name: str
    busy_seconds: float
    nbytes: int
    within: str | None = None

    def __add__(self, other: StageUse) -> StageUse:
        """Both uses of the same stage together.

        Raises:
            ValueError: The other one is of another stage.
        """
        if other.name != self.name:
            raise ValueError(f"stage {self.name!r} and stage {other.name!r} don't add up")
        return replace(self, busy_seconds=self.busy_seconds + other.busy_seconds, nbytes=self.nbytes + other.nbytes)

    def microseconds_a_frame(self, frames: int) -> float:
        """Busy time of one worker for one frame, in µs; NaN without frames."""
        return self.busy_seconds / frames * 1e6 if frames else math.nan

    @property
    def bytes_a_second(self) -> float:
        """Throughput of one busy worker, in B/s; NaN for a stage that was never busy."""
        return self.nbytes / self.busy_seconds if self.busy_seconds > 0 else math.nan


def json_number(value: float) -> float | None:
    """The number, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None
