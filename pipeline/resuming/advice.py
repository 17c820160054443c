"""What a user can do with what a run that was broken off has left."""

from __future__ import annotations

import shlex
from pathlib import Path

from cluster_store import dataset_status
from object_stores import is_url
from pipeline.output.redaction import redacted
from pipeline.preparation import PreparedRun
from pipeline.resuming.journal import read_header


def what_is_left(prepared: PreparedRun, begun: bool = False) -> str:
    """What lies at the output's place after a run that did not finish, and how to go on.

    Args:
        prepared: The run.
        begun: It had begun its dataset; what can't be found any more has then been taken away.
    """
    out = prepared.out
    out_of_reach = f"once {out} can be reached again, go on with: {resuming(prepared.options.command)}"
    try:
        status, header = dataset_status(out), read_header(out)
    except OSError:
        return out_of_reach
    # A run makes the folder that its output lies in, should there be none, before anything else.
    if not is_url(out) and not Path(out).parent.exists():
        return out_of_reach
    if status == "complete" and (header is None or header.created):
        return f"the dataset at {out} is complete"
    if header is not None:
        return f"go on with: {resuming(prepared.options.command)}"
    if status == "running":
        return f"what is at {out} is unfinished; run again with --overwrite"
    return out_of_reach if begun else "nothing was written"


def resuming(command: str) -> str:
    """The command that goes on with what a command began."""
    if command.startswith("pipeline.process"):
        return "process(..., resume=True)"
    words = [word for word in shlex.split(command) if word not in ("--overwrite", "--resume")]
    return redacted(shlex.join([*words, "--resume"]))
