"""What `gpu_check.py` tries in processes of their own: compute-sanitizer, and a run through the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.ceilings.machine import cores

ROOT = Path(__file__).parents[1]
CHECK = Path(__file__).with_name("gpu_check.py")
FEWEST_SANITIZED = 10.0
"""With fewer seconds there is no point in beginning."""


def sanitized(say: Callable[[str], None], seconds: float) -> dict[str, str]:
    """compute-sanitizer's memcheck and racecheck on small cases, each in a process of its own, for so long at most."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"compute-sanitizer": "not installed"}
    if seconds < FEWEST_SANITIZED:
        return {"compute-sanitizer": "no time was left for it"}
    outcomes = {}
    for tool in ("memcheck", "racecheck"):
        say(tool)
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, str(CHECK), "--few-cases"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=ROOT)
        except subprocess.TimeoutExpired:
            outcomes[tool] = f"took longer than {seconds:.0f} s"
        else:
            found = f"exit status {ran.returncode}: {ran.stdout[-2000:]}"
            outcomes[tool] = found if ran.returncode else "nothing found"
    return outcomes


def whole_run(n_frames: int, say: Callable[[str], None], devices: tuple[list[str], ...] = (["--gpus", "1"], [])) -> Any:
    """A run through the command line on a GPU, and on the CPU's cores: digests have to be the same."""
    with tempfile.TemporaryDirectory(prefix="photonflow-gpu-check-") as folder:
        archive = f"{folder}/a.zarr"
        say(f"simulating {n_frames} frames")
        _photonflow("simulate", archive, "--frames", str(n_frames), "--no-progress")
        results = []
        for options in devices:
            say(" ".join(["process", *options]))
            chosen = options or ["--cpus", str(cores())]
            answer = _photonflow("process", archive, "--overwrite", "--json", "--no-progress", *chosen)
            results.append(json.loads(answer))
    return {"same_digest": len({result["digest"] for result in results}) == 1, "runs": results}


def _photonflow(command: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", f"workflows.{command}", *arguments], capture_output=True, text=True, cwd=ROOT
    )
    if ran.returncode:
        raise RuntimeError(f"photonflow {command} failed: {ran.stderr.strip()}")
    return ran.stdout
