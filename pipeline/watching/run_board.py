"""What a scheduler knows of the runs on it: the last state of each, and how it came there.

It stays with the scheduler after a run has ended, so that one can still look; the last :data:`RUNS_KEPT` are kept.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.watching.run_state import RunDescription, RunState

RUNS_KEPT = 20
# So many points show a run of any length: when there are twice as many, every second is dropped.
POINTS = 200
# Rates "now" are those of so many seconds, or of the last two states where batches take longer.
SECONDS_OF_NOW = 10.0
EXTENSION = "photonflow"
"""The name of the board among a scheduler's extensions."""


@dataclass(frozen=True)
class Point:
    """A run at one time.

    Args:
        time: In s since 1970.
        frames: Frames done.
        clusters: Clusters found.
        offset: Of the pedestal, in noise widths.
        movement: Likewise.
    """

    time: float
    frames: int
    clusters: int
    offset: float
    movement: float


@dataclass
class ShownRun:
    """A run, as far as it has come.

    Args:
        description: What it is.
        state: Where it is.
        points: How it came there, from its beginning, evenly thinned out.
        recent: Its last states, for rates.
        retries: Tasks that were begun again, by step.
        at_work: Batches that are being found, by their tasks' keys, as the scheduler knows it.
        ended: When it ended, in s since 1970; None while it goes on.
        most_idle: The most seconds without a batch that were told of it: what its account says at the end may be less,
            and a counter must not fall.
    """

    description: RunDescription
    state: RunState = field(default_factory=RunState)
    points: list[Point] = field(default_factory=list)
    recent: deque[Point] = field(default_factory=lambda: deque(maxlen=64))
    retries: Counter[str] = field(default_factory=Counter)
    at_work: set[str] = field(default_factory=set)
    ended: float | None = None
    most_idle: float = 0.0
    _spacing: float = 0.0
    _of_workers: dict[str, deque[tuple[float, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = self.description
        first = Point(kept.began, kept.frames_kept, kept.clusters_kept, float("nan"), float("nan"))
        self.state = replace(
            self.state, frames=kept.frames_kept, clusters=kept.clusters_kept, batches=kept.batches_kept
        )
        self.points.append(first)
        self.recent.append(first)

    def take(self, state: RunState, now: float) -> None:
        """Take down a state."""
        point = Point(now, state.frames, state.clusters, state.offset, state.movement)
        if state.frames > self.state.frames or state.outcome:
            self.recent.append(point)
            if now - self.points[-1].time >= self._spacing:
                self.points.append(point)
            if len(self.points) >= 2 * POINTS:
                # What comes from now on stands as far apart as what is left.
                self.points = self.points[::2]
                self._spacing = (now - self.points[0].time) / POINTS
        for name, totals in state.workers.items():
            before = self._of_workers.setdefault(name, deque([(self.description.began, 0, 0)], maxlen=8))
            if totals.frames > before[-1][1]:
                before.append((now, totals.frames, totals.clusters))
        self.state = state
        self.most_idle = max(self.most_idle, state.idle_seconds)
        if state.outcome and self.ended is None:
            self.ended = now

    def seconds(self, now: float) -> float:
        """How long it has gone on, in s; at its end what its own account says."""
        if self.ended is not None and self.state.seconds > 0:
            return self.state.seconds
        return max((now if self.ended is None else self.ended) - self.description.began, 0.0)

    def rates(self, now: float) -> tuple[float, float]:
        """Frames and clusters a second over the whole run."""
        seconds = self.seconds(now)
        first = self.points[0]
        if seconds <= 0:
            return 0.0, 0.0
        return (self.state.frames - first.frames) / seconds, (self.state.clusters - first.clusters) / seconds

    def rates_now(self, now: float) -> tuple[float, float]:
        """Frames and clusters a second lately; 0 when it has ended."""
        if self.ended is not None:
            return 0.0, 0.0
        last, since = self.recent[-1], self.recent[0]
        for point in self.recent:
            if last.time - point.time < SECONDS_OF_NOW:
                break
            since = point
        seconds, silence = last.time - since.time, now - last.time
        if silence > max(seconds, SECONDS_OF_NOW):
            # Nothing has come for longer than what came before took: it has become slower.
            seconds += silence
        if seconds <= 0:
            return 0.0, 0.0
        return (last.frames - since.frames) / seconds, (last.clusters - since.clusters) / seconds

    def worker_rates(self, name: str, now: float) -> tuple[float, float]:
        """Frames and clusters a second of a worker over its last batches; over the whole run once that has ended."""
        points = self._of_workers.get(name)
        if not points:
            return 0.0, 0.0
        if self.ended is not None:
            first, end = (self.description.began, 0, 0), self.ended
        else:
            # From one of its batches to another: what has begun since is not done.
            first, end = points[0], points[-1][0]
        seconds = end - first[0]
        if seconds <= 0:
            return 0.0, 0.0
        return (points[-1][1] - first[1]) / seconds, (points[-1][2] - first[2]) / seconds

    def seconds_left(self, now: float) -> float:
        """How long it will go on at the rate of the whole run, in s; NaN where that is not known."""
        rate, _ = self.rates(now)
        if self.ended is not None:
            return 0.0
        return (self.description.frames - self.state.frames) / rate if rate > 0 else float("nan")


class RunBoard:
    """The runs of a scheduler.

    Attributes:
        runs: By their id, the one that began last at the end.
        outcomes: How many runs ended in which way.
        retries: Tasks that were begun again, by step, in all runs.
        failures: Tasks that failed after all their tries, in runs that have ended.
        batches_skipped: Likewise batches that were given up.
        has_page: The scheduler serves a dashboard, and the page on it.
    """

    def __init__(self, scheduler: Any = None) -> None:
        self.scheduler = scheduler
        self.has_page = False
        self.runs: dict[str, ShownRun] = {}
        self.outcomes: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self._failures_before = self._skipped_before = 0

    def begin(self, description: RunDescription) -> ShownRun:
        """A run began."""
        begun = self.runs[description.run_id] = ShownRun(description)
        ended = [run_id for run_id, run in self.runs.items() if run.ended is not None]
        for run_id in ended[: max(len(self.runs) - RUNS_KEPT, 0)]:
            forgotten = self.runs.pop(run_id)
            self._failures_before += forgotten.state.failures
            self._skipped_before += forgotten.state.skipped
        return begun

    def take(self, run: str, state: dict[str, Any]) -> None:
        """Take down what the client of a run says of it."""
        if (shown := self.runs.get(run)) is None or shown.ended is not None:
            return
        shown.take(RunState.from_message(state), time.time())
        if shown.ended is not None:
            self.outcomes[shown.state.outcome] += 1

    def lose_client(self, client: str) -> None:
        """A client has gone: its runs, if they have not ended, are over."""
        for run_id, run in self.runs.items():
            if run.ended is None and run.description.client == client:
                self.take(run_id, replace(run.state, outcome="lost", message="its client has gone").as_message())

    def retry(self, run: ShownRun, step: str) -> None:
        """A task of a run was begun again."""
        self.retries[step] += 1
        run.retries[step] += 1

    @property
    def failures(self) -> int:
        """Tasks that failed after all their tries, in all runs."""
        return self._failures_before + sum(run.state.failures for run in self.runs.values())

    @property
    def batches_skipped(self) -> int:
        """Batches that were given up, in all runs."""
        return self._skipped_before + sum(run.state.skipped for run in self.runs.values())
