"""Whether Slurm would take the jobs of a cluster configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.slurm_jobs import COMMANDS, SECONDS_TO_ANSWER, job_script, jobs_in_queue


def check_slurm(config: ClusterConfig) -> Iterator[tuple[str, str, bool]]:
    """What was looked at, what was found, and whether that will do; Slurm is asked and starts nothing."""
    assert config.slurm is not None
    try:
        script = job_script(config)
    except ClusterUnavailableError as error:
        yield "library", str(error), False
        return
    yield "library", "dask-jobqueue is here", True
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        yield "commands", f"{', '.join(missing)} not on the PATH: run this on a login node", False
        return
    yield "commands", f"{', '.join(COMMANDS)} are here", True
    try:
        queued = len(jobs_in_queue())
    except OSError as error:
        yield "Slurm", f"{error}", False
        return
    yield "Slurm", f"answers; {queued} jobs of yours wait or run", True
    folder = Path(config.slurm.shared_directory).absolute()
    parent = next(place for place in (folder, *folder.parents) if place.exists())
    writable = parent.is_dir() and os.access(parent, os.W_OK)
    yield "shared directory", str(folder) if writable else f"{parent} can't be written to", writable
    yield _test_only(script)


def _test_only(script: str) -> tuple[str, str, bool]:
    """Let Slurm say when it would start such a job, or why not."""
    try:
        answer = subprocess.run(
            ["sbatch", "--test-only"], input=script, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER
        )
    except subprocess.TimeoutExpired:
        return "job", f"sbatch has not answered for {SECONDS_TO_ANSWER:g} s", False
    said = " ".join((answer.stderr or answer.stdout).split()).removeprefix("sbatch: ")
    return "job", said, answer.returncode == 0
