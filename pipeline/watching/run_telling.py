"""A run's beginning, steps, notices and end, as events."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pipeline.output.finishing import RunResult
from pipeline.output.provenance import host, versions
from pipeline.output.redaction import redacted
from pipeline.output.run_history import outcome_of
from pipeline.preparation import PreparedRun
from pipeline.watching.run_events import OnEvent, RunEvent


class RunTelling:
    """Tells of a run, and at last how it ended; a context manager around it.

    Args:
        prepared: The run.
        run_id: Its id.
        on_event: Told of everything; None tells nobody.
    """

    def __init__(self, prepared: PreparedRun, run_id: str, on_event: OnEvent | None) -> None:
        self._prepared, self._run_id, self._on_event = prepared, run_id, on_event
        self._began = time.monotonic()
        self.result: RunResult | None = None

    def __call__(self, event: RunEvent) -> None:
        """Tell of an event."""
        if self._on_event is not None:
            self._on_event(event)

    def step(self, on_step: Callable[[str], None] | None) -> Callable[[str], None]:
        """What tells of steps, and passes them on."""

        def told(step: str) -> None:
            self(RunEvent("step", self._run_id, message=redacted(step)))
            if on_step is not None:
                on_step(step)

        return told

    def notice(self, on_notice: Callable[[str], object]) -> Callable[[str], None]:
        """What tells of notices, and passes them on."""

        def told(notice: str) -> None:
            self(RunEvent("notice", self._run_id, message=redacted(notice)))
            on_notice(notice)

        return told

    def __enter__(self) -> Self:
        prepared = self._prepared
        details = {
            "archive": redacted(prepared.archive.address.path),
            "out": redacted(prepared.out),
            "batches": len(prepared.plan),
            "command": redacted(prepared.options.command),
            "versions": versions(),
            "host": host(),
        }
        self(RunEvent("run_began", self._run_id, frames=prepared.plan.n_frames, details=details))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._began
        if self.result is not None:
            summary = self.result.summary
            details = {"outcome": "complete", "digest": self.result.digest, "skipped_batches": len(self.result.skipped)}
            event = RunEvent(
                "run_ended",
                self._run_id,
                seconds=seconds,
                frames=summary.frames,
                clusters=summary.clusters,
                details=details,
            )
        else:
            event = RunEvent(
                "run_ended",
                self._run_id,
                seconds=seconds,
                message=None if error is None else redacted(str(error)),
                details={"outcome": "complete" if error is None else outcome_of(error)},
            )
        self(event)
