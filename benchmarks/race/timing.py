"""How things are timed: side by side, never on a first run, and only once their memory has been paged in.

Contestants take turns, so that whatever else the machine does meets all of them. Each is first run until the minor page
faults of two runs in a row agree: the first runs fault in memory that later ones reuse, which can take longer than the
work itself. What is reported is the median and the quartiles of the laps, and the faults of the last one.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MOST_WARM_UPS = 6
# Two runs' faults agree when they differ by less than a tenth, or by a handful.
TOLERANCE, A_HANDFUL = 0.1, 64


@dataclass(frozen=True)
class Lap:
    """One run of a contestant.

    Attributes:
        seconds: how long it took, s.
        core_seconds: processor time of all its threads, s: other work on the machine disturbs it less.
        faults: minor page faults of the process meanwhile.
        clusters: clusters found.
    """

    seconds: float
    core_seconds: float
    faults: int
    clusters: int


@dataclass(frozen=True)
class Laps:
    """The timed runs of a contestant.

    Attributes:
        seconds: of each run, s.
        core_seconds: processor time of each, s.
        faults: minor page faults of the last one.
        clusters: clusters that each of them found.
        settled: whether its page faults had settled before it was timed.
    """

    seconds: tuple[float, ...]
    core_seconds: tuple[float, ...]
    faults: int
    clusters: int
    settled: bool

    @property
    def median(self) -> float:
        """The median run, s."""
        return statistics.median(self.seconds)

    @property
    def median_core(self) -> float:
        """The median processor time, s."""
        return statistics.median(self.core_seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile, s; of a single run, itself."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third


def minor_faults() -> int:
    """Minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def lap_of(work: Callable[[], int]) -> Lap:
    """Time one run of `work`, which returns the number of clusters it found."""
    faults = minor_faults()
    begin, core = time.perf_counter(), time.process_time()
    clusters = work()
    return Lap(time.perf_counter() - begin, time.process_time() - core, minor_faults() - faults, clusters)


def race(contestants: Mapping[str, Callable[[], Lap]], repeats: int) -> dict[str, Laps]:
    """Time contestants in turns.

    Args:
        contestants: what runs one lap of each.
        repeats: timed laps of each.

    Raises:
        RuntimeError: one of them found another number of clusters in another lap.
    """
    settled = {name: _settle(run) for name, run in contestants.items()}
    laps: dict[str, list[Lap]] = {name: [] for name in contestants}
    names = list(contestants)
    for repeat in range(repeats):
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            laps[name].append(contestants[name]())
    for name, runs in laps.items():
        if len({lap.clusters for lap in runs}) > 1:
            raise RuntimeError(f"{name} found {sorted({lap.clusters for lap in runs})} clusters in the same frames")
    return {
        name: Laps(
            tuple(lap.seconds for lap in runs),
            tuple(lap.core_seconds for lap in runs),
            runs[-1].faults,
            runs[-1].clusters,
            settled[name],
        )
        for name, runs in laps.items()
    }


def _settle(run: Callable[[], Lap]) -> bool:
    before = run().faults
    for _ in range(MOST_WARM_UPS - 1):
        faults = run().faults
        if abs(faults - before) <= max(A_HANDFUL, TOLERANCE * before):
            return True
        before = faults
    return False
