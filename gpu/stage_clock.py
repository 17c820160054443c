"""How long a GPU is at its stages: frames to it (H2D), kernels, clusters from it (D2H).

Events at the borders of a stage tell when it began and ended on one stream. Several streams share the GPU: while one
stage of one stream waits for its turn another stream has it, and the time between both events is of both. Added up,
such times can be more than there is, as many times as there are streams. So the moments are laid on one time line for
all streams, and each moment counts once for each stage: what comes of it is the time in which at least one stream was
at that stage, never more than has passed.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from gpu.device import Device, Event, Stream

Stage = Literal["H2D", "kernel", "D2H"]
STAGES: tuple[Stage, ...] = get_args(Stage)
# CUDA tells the time between two events as a float32 in ms: of more seconds it would not tell microseconds.
SECONDS_AN_ORIGIN = 4.0
# Later ones can't touch the earlier ones of these any more: only so many chunks are under way at once.
INTERVALS_KEPT = 256


class Span:
    """A stretch of a stream's work, between two events.

    Args:
        device: where.
    """

    def __init__(self, device: Device) -> None:
        self.began, self.ended = device.event(timed=True), device.event(timed=True)

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """What is queued on the stream within is the work."""
        stream.record(self.began)
        yield
        stream.record(self.ended)


@dataclass(frozen=True)
class Origin:
    """A moment that others are told from.

    Attributes:
        event: it has happened.
        at: when, since the clock's first origin, in s.
    """

    event: Event
    at: float


class Moments:
    """A set of moments: intervals that don't touch, in order."""

    def __init__(self) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []
        self._settled = float("-inf")

    def add(self, begin: float, end: float) -> float:
        """Add an interval; how much of it is new, in s. What lies before all intervals that are kept never is."""
        begin = max(begin, self._settled)
        if end <= begin:
            return 0.0
        first = bisect.bisect_left(self._ends, begin)
        last = bisect.bisect_right(self._begins, end)
        held = sum(min(self._ends[k], end) - max(self._begins[k], begin) for k in range(first, last))
        if first < last:
            begin_of_all, end_of_all = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        else:
            begin_of_all, end_of_all = begin, end
        self._begins[first:last], self._ends[first:last] = [begin_of_all], [end_of_all]
        if len(self._begins) > INTERVALS_KEPT:
            self._settled = self._ends.pop(0)
            self._begins.pop(0)
        return max(end - begin - held, 0.0)


class StageClock:
    """The time line of a GPU, for all streams of a finder; threads may share it.

    Args:
        device: the GPU.
    """

    def __init__(self, device: Device) -> None:
        self._device, self._stream = device, device.stream()
        self._lock = threading.Lock()
        self._moments = {stage: Moments() for stage in STAGES}
        self._origin: Origin | None = None
        self._made = 0.0

    def origin(self) -> Origin:
        """An origin for what is queued from now on."""
        with self._lock:
            if self._origin is None or time.monotonic() - self._made > SECONDS_AN_ORIGIN:
                self._origin, self._made = self._new_origin(self._origin), time.monotonic()
            return self._origin

    def claim(self, stage: Stage, origin: Origin, span: Span) -> float:
        """Take the moments of a span, all of whose work is done, for a stage; those that are new to it, in s.

        Args:
            stage: what the work was.
            origin: from before the work was queued.
            span: the work.
        """
        begin = origin.at + span.began.seconds_since(origin.event)
        end = begin + span.ended.seconds_since(span.began)
        with self._lock:
            return self._moments[stage].add(begin, end)

    def _new_origin(self, before: Origin | None) -> Origin:
        event = self._device.event(timed=True)
        self._stream.record(event)
        event.synchronize()
        return Origin(event, 0.0 if before is None else before.at + event.seconds_since(before.event))
