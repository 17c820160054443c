"""The benchmark as a process of its own, whose memory is kept as a worker's is: ``python -m benchmarks.race``.

``python -m workflows.benchmark`` starts it, and prints what it writes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.race.contests import Row, Sizes, against_the_peer, against_the_plain_case, photon_rates, shapes
from benchmarks.race.ladder import Rung, ladder
from benchmarks.race.peer import Peer, peer_at, python_with_aare
from benchmarks.race.report import as_json
from benchmarks.race.start import Start, measure_start
from benchmarks.race.subjects import MOENCH, SEED, simulated
from benchmarks.race.whole_run import whole_run
from finder.processor import host_lanes
from pipeline.ceilings.machine import machine
from pipeline.checks.dark_problems import WrongDarksWarning
from pipeline.checks.pedestal_warnings import BadPixelsWarning, StalePedestalWarning

PARTS = ("peer", "plain", "rates", "shapes", "ladder", "run", "start")
# A tiny form that takes seconds: it shows that all works, and its times mean nothing.
TINY = Sizes(frames=8, dark=1000, pixels=20_000, repeats=1, shapes=((40, 48), (41, 47)))
RUN_FRAMES = 4000


def run_all(sizes: Sizes, parts: set[str], python: str | None, work: Path | None) -> dict[str, Any]:
    """Run the parts asked for.

    Args:
        sizes: how much is timed.
        parts: which of PARTS.
        python: one that has aare; None leaves the peer out.
        work: where the archive and the dataset of the whole run go: on a disk; None is the system's temporary folder.
    """
    rows: list[Row] = []
    rungs: list[Rung] = []
    start: Start | None = None
    with ExitStack() as opened:
        shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="photonflow-", dir=shared)))
        on_disk = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="photonflow-", dir=work)))
        peer: Peer | None = None if python is None else opened.enter_context(peer_at(python, folder))
        subject = simulated(folder, "frames", replace(MOENCH, shape=sizes.shapes[0]), sizes.frames, sizes.dark)
        if peer is not None and "peer" in parts:
            rows += _told("against the peer", against_the_peer(subject, peer, sizes))
        if "plain" in parts:
            rows += _told("masks, types, windows", against_the_plain_case(subject, folder, sizes))
        if "rates" in parts:
            rows += _told("photon rates", photon_rates(folder, sizes))
        if "shapes" in parts:
            rows += _told("shapes", shapes(folder, sizes))
        if "ladder" in parts:
            _say("the ladder")
            rungs = ladder(subject, folder, sizes.repeats)
        if "run" in parts:
            n_frames = min(RUN_FRAMES, 20 * sizes.frames)
            rows += _told("whole runs", whole_run(subject, on_disk, n_frames, peer, sizes))
        if "start" in parts:
            _say("starting processes")
            start = measure_start(sizes.repeats)
        about = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine() | {"lanes": str(host_lanes())},
            "peer": None if peer is None else peer.versions,
            "load": os.getloadavg()[0],
            "seed": SEED,
            "sizes": asdict(sizes),
        }
        return as_json(about, rows, rungs, start)


def _told(what: str, rows: Any) -> list[Row]:
    _say(what)
    return list(rows)


def _say(what: str) -> None:
    sys.stderr.write(f"{what} ...\n")
    sys.stderr.flush()


def main() -> None:
    """Run, and write JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--peer-home", type=Path)
    parser.add_argument("--peer-python")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--repeats", type=int)
    given = parser.parse_args()
    parts = set(given.parts.split(","))
    python = given.peer_python
    if python is None and given.peer_home is not None:
        python = python_with_aare(given.peer_home)
    sizes = TINY if given.tiny else Sizes()
    sizes = replace(sizes, frames=given.frames or sizes.frames, repeats=given.repeats or sizes.repeats)
    # Its archives are one simulated stretch of frames many times over, which is gone when a user could look into it.
    for unsaid in (BadPixelsWarning, StalePedestalWarning, WrongDarksWarning):
        warnings.filterwarnings("ignore", category=unsaid)
    result = run_all(sizes, parts, python, given.work) | {"tiny": given.tiny}
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
