"""A run's events as lines of JSON: for machines that watch many runs."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TextIO

from pipeline.watching.run_events import RunEvent


class EventLog:
    """Writes one JSON object a line, as each event comes.

    A log that can't be written any more (a full disk, a reader that has gone) does not end the run.

    Args:
        stream: Where to; it is flushed after each line, and not closed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.problem: OSError | None = None

    def __call__(self, event: RunEvent) -> None:
        """Write an event."""
        line = json.dumps(event.as_json(), ensure_ascii=True, allow_nan=False) + "\n"
        with self._lock:
            if self.problem is not None:
                return
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError as error:
                self.problem = error

    def close(self) -> None:
        """Close what it writes to."""
        with suppress(OSError):
            self._stream.close()
