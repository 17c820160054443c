"""What a run is watched by: its progress on the terminal, its log, Dask's report."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click
from distributed import Client

from pipeline.watching.event_log import EventLog
from pipeline.watching.performance import reported, require_report_place
from pipeline.watching.run_events import RunEvent
from workflows.printable import printable
from workflows.progress import RunProgress

TO_STDERR = "-"


@dataclass(frozen=True)
class Watching:
    """What the options of a run ask for.

    Args:
        show_progress: Whether progress is shown.
        log: Where its events are written, if they are.
        log_on_stderr: That is stderr, where then nothing else is written but how it ended, if badly.
        report: Where Dask's report goes; None is nowhere.
    """

    show_progress: bool
    log: EventLog | None
    log_on_stderr: bool
    report: str | None

    @staticmethod
    @contextmanager
    def asked(options: Mapping[str, Any]) -> Iterator[Watching]:
        """What is asked for by a command's options; a log file is closed at the end.

        Raises:
            OSError: The log or the report can't be written.
            ValueError: The report can't be made.
        """
        report, place = options["performance_report"], options["log_json"]
        if report is not None:
            require_report_place(report)
        if place is None or place == TO_STDERR:
            log = None if place is None else EventLog(sys.stderr)
            yield Watching(options["progress"], log, place is not None, report)
            return
        log = EventLog(_appended(place))
        try:
            yield Watching(options["progress"], log, False, report)
        finally:
            log.close()
        if log.problem is not None:
            click.echo(f"photonflow: {printable(place)} ends before the run did: {log.problem.strerror}", err=True)

    def progress(self, frames: int) -> RunProgress:
        """What shows the progress of a run of so many frames."""
        if not self.log_on_stderr:
            return RunProgress(frames, enabled=self.show_progress)
        assert self.log is not None
        return _Logged(frames, self.log)

    def notice(self, progress: RunProgress) -> Callable[[str], None]:
        """What tells the user of a notice of the run; those of a log on stderr are in it already."""

        def told(notice: str) -> None:
            if not self.log_on_stderr:
                progress.note(f"photonflow: {notice}")

        return told

    def reported(self, client: Client, command: str, progress: RunProgress) -> AbstractContextManager[None]:
        """What has Dask's report written, if one is asked for."""
        if self.report is None:
            return nullcontext()
        return reported(client, self.report, command, lambda notice: progress.note(f"photonflow: {notice}"))


class _Logged(RunProgress):
    """Progress that is not shown, and whose notes go to the log.

    Args:
        frames: Frames of the whole run.
        log: The log.
    """

    def __init__(self, frames: int, log: EventLog) -> None:
        super().__init__(frames, enabled=False, stream=io.StringIO())
        self._log = log

    def note(self, text: str) -> None:
        """Log it."""
        self._log(RunEvent("notice", "", message=text))


def _appended(place: str) -> TextIO:
    path = Path(place)
    try:
        stream = path.open("a", encoding="utf-8")
        # A line that an earlier run could not finish must not take this one's first with it.
        if path.is_file() and (size := path.stat().st_size) and _bytes_from(path, size - 1) != b"\n":
            stream.write("\n")
    except OSError as error:
        raise type(error)(error.errno, f"--log-json can't be written there ({error.strerror})", place) from error
    return stream


def _bytes_from(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read()
