"""Who has worked on a dataset: each run, and each that went on with it, from its beginning to its end.

The attribute ``runs`` holds it as JSON, a list with an object for each run: ``run_id``, ``began`` and ``ended`` (UTC),
``outcome`` (``complete``, ``stopped``, ``failed``, ``broken off``; null while it goes on), ``message``, ``command``,
``versions``, ``host``. ``history`` has the same commands as CF wants them, a line each.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from cluster_store import DatasetError, note_attributes, read_attributes
from pipeline.errors import OutputError, RunStoppedError
from pipeline.output import provenance
from pipeline.output.redaction import redacted

RUNS = "runs"
# Of a dataset that is gone on with ever again the first and the last runs are kept.
_MOST = 100


def runs_of(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs that a dataset's attributes tell of, the first first; none where they can't be read."""
    try:
        runs = json.loads(attributes[RUNS])
        return [dict(run) for run in runs]
    except (KeyError, TypeError, ValueError):
        return []


def begun(run_id: str, command: str, before: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The attributes ``runs`` and ``history`` of a run that begins.

    Args:
        run_id: Its id.
        command: What was called.
        before: The attributes of the dataset that it goes on with; None for a new one.
    """
    earlier = runs_of(before or {})
    for run in earlier:
        if run.get("outcome") is None:
            run["outcome"] = "broken off"
    this = {
        "run_id": run_id,
        "began": _now(),
        "ended": None,
        "outcome": None,
        "command": redacted(command),
        "versions": provenance.versions(),
        "host": provenance.host(),
    }
    runs = [*earlier, this]
    if len(runs) > _MOST:
        runs = [*runs[: _MOST // 2], *runs[-_MOST // 2 :]]
    lines = [str(before["history"])] if before and before.get("history") else []
    lines.append(provenance.history_line(redacted(command)))
    return {RUNS: json.dumps(runs), "history": "\n".join(lines)}


def ended(
    attributes: Mapping[str, Any], run_id: str, outcome: str, message: str = "", done: Mapping[str, int] | None = None
) -> dict[str, str]:
    """The attribute ``runs`` with the end of a run in it.

    Args:
        attributes: The dataset's.
        run_id: The run.
        outcome: How it ended.
        message: Why, in words.
        done: What it did: batches, frames, clusters.
    """
    runs = runs_of(attributes)
    for run in runs:
        if run.get("run_id") == run_id:
            run |= {"ended": _now(), "outcome": outcome, **(done or {})}
            if message:
                run["message"] = redacted(message)
    return {RUNS: json.dumps(runs)}


@contextmanager
def end_noted(out: str, run_id: str, begun: Callable[[], bool]) -> Iterator[None]:
    """Note in a dataset that is left incomplete how its run ended, if it is this run's and can be written.

    Args:
        out: The dataset.
        run_id: The run.
        begun: Says whether it has begun to write the dataset.
    """
    try:
        yield
    except BaseException as error:
        # What can't be written takes no note either, and a store that has gone would be waited for.
        if begun() and not isinstance(error, OutputError):
            with contextlib.suppress(OSError, DatasetError):
                attributes = ended(read_attributes(out), run_id, outcome_of(error), str(error))
                note_attributes(out, attributes, run_id=run_id)
        raise


def outcome_of(error: BaseException) -> str:
    """How a run ended that did not come to its end, in a word."""
    return "stopped" if isinstance(error, RunStoppedError | KeyboardInterrupt) else "failed"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
