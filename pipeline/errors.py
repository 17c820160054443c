"""The ways in which a run can fail, each with a message that a user can act on."""

from __future__ import annotations


class RunError(RuntimeError):
    """A run cannot start, or cannot go on."""


class BatchError(RunError):
    """A batch failed after its retries."""


class ClusterUnavailableError(RunError):
    """The workers that were asked for are not there."""


class RunStoppedError(RunError):
    """The run was asked to stop and did."""


class NotEnoughMemoryError(RunError):
    """The workers that were asked for would not fit into the memory that there is."""


class OutputError(RunError):
    """The dataset or its journal can't be written: a full disk, a quota, a disk that went away."""


class ChangedResultError(RunError):
    """A batch was found again with another result than before."""


class ResumeError(RunError):
    """A run can't be continued: what it was made from has changed, or what it left is not there."""


def reason_of(error: BaseException) -> str:
    """What was at the bottom of an error, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
