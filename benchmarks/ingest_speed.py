"""How fast ingest is, against a plain copy of the same bytes, and against what the codec alone can do.

    python benchmarks/ingest_speed.py --frames 4000 --json benchmarks/results/ingest_speed.json

Frames of 400×400 uint16, Gaussian noise of 5 ADU, lie in one NPY file, which the system keeps in memory if it can. A
plain copy (one process, 256 KB at a time into the same buffer, as ``cp`` does) and ingests take turns, so that what
else the machine does meets all alike; workers are started beforehand. Reported are the median and the quartiles of GB/s
(decoded bytes by wall time, all of `ingest` from an empty place to a complete archive), and GB by second of CPU time,
which other people's work disturbs less: of this process for the copy, of the workers' tasks for ingest, without what
Dask takes to wait. Both write new files and leave it to the system when they reach the disk; before each turn it is
told to write what is due, and nothing is deleted between turns: ext4 takes long to make files where others were just
deleted. The folder needs room for 25 times `--frames` of 320 KB with three repeats.

The codec alone packs one chunk again and again in one thread, also by second of CPU time: ingest can't be faster.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from distributed import Client
from numcodecs.blosc import Blosc

from pipeline import ClusterConfig, open_cluster
from pipeline.ingest.plan import IngestPlan
from pipeline.ingest.planning import IngestOptions, plan_ingest
from pipeline.ingest.run import ingest
from pipeline.output.provenance import cpu_model, versions

GOAL_OF_COPY, GOAL_GB_PER_CORE = 0.7, 0.5
BUFFER, CHUNK = 256 << 10, 20


def measured(action: Callable[[], float], nbytes: int) -> tuple[float, float]:
    """GB/s by wall time, and GB by second of CPU time, which the action returns."""
    os.sync()
    began = time.perf_counter()
    cpu = action()
    return nbytes / (time.perf_counter() - began) / 1e9, nbytes / max(cpu, 1e-9) / 1e9


def copy(source: Path, target: Path, buffer_nbytes: int) -> float:
    """A plain copy, without the help that some file systems give; returns its CPU time."""
    began = time.thread_time()
    buffer = memoryview(bytearray(buffer_nbytes))
    with source.open("rb", 0) as read, target.open("wb", 0) as write:
        while n_bytes := read.readinto(buffer):
            write.write(buffer[:n_bytes])
    return time.thread_time() - began


def codec_alone(frames: npt.NDArray[np.uint16], repeats: int = 30) -> float:
    """Packs a chunk in one thread, beside the main one, as workers do; returns GB by second of CPU time, the median."""
    codec = Blosc("lz4", 1, Blosc.BITSHUFFLE)
    taken: list[float] = []

    def pack() -> None:
        for _ in range(repeats):
            began = time.thread_time()
            codec.encode(frames)
            taken.append(time.thread_time() - began)

    thread = threading.Thread(target=pack)
    thread.start()
    thread.join()
    return frames.nbytes / statistics.median(taken) / 1e9


def main() -> None:
    """Measure, and print or write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--copy-buffer", type=int, default=BUFFER, help="Bytes that the copy takes at a time.")
    parser.add_argument("--folder", type=Path, help="Where the files go; a temporary folder by default.")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        source = folder / "frames.npy"
        noise = np.random.default_rng(0).normal(1000, 5, (200, 400, 400)).astype(np.uint16)
        np.save(source, np.resize(noise, (arguments.frames, 400, 400)))
        figures = measure(source, folder, arguments.repeats, arguments.copy_buffer)
        figures["codec_alone_GB_per_cpu_s"] = codec_alone(noise[:CHUNK])
    figures |= {
        "frames": arguments.frames,
        "repeats": arguments.repeats,
        "copy_buffer": arguments.copy_buffer,
        "cpu": cpu_model(),
        "cores": psutil.cpu_count(),
        "load_at_end": psutil.getloadavg(),
        "system": platform.platform(),
        "versions": versions(),
    }
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


def measure(source: Path, folder: Path, repeats: int, copy_buffer: int) -> dict[str, Any]:
    """Take turns between the copy and each kind of ingest."""
    nbytes = source.stat().st_size
    runs: dict[str, list[tuple[float, float]]] = {}

    def note(name: str, action: Callable[[], float]) -> None:
        runs.setdefault(name, []).append(measured(action, nbytes))

    for n_workers in (1, 2):
        with open_cluster(ClusterConfig(workers=n_workers)) as client:
            for turn in range(repeats + 1):
                place = folder / f"{n_workers} workers" / f"turn {turn}"
                place.mkdir(parents=True)
                note(f"copy, beside {n_workers} workers", partial(copy, source, place / "copy.npy", copy_buffer))
                for compression in ("none", "lz4"):
                    plan = plan_ingest([str(source)], IngestOptions(compression=compression))
                    ingested = partial(_ingested, plan, place / f"{compression}.zarr", client)
                    note(f"ingest, {compression}, {n_workers} workers", ingested)
                if turn == 0:  # Imports, and pages that are not there yet.
                    for name in list(runs)[-3:]:
                        runs[name].clear()
    summary = {name: _summary(values) for name, values in runs.items()}
    return {
        "runs": summary,
        "uncompressed_by_copy": {
            **{f"wall, {n} workers": _by_copy(runs, n, 0) for n in (1, 2)},
            **{f"CPU time, {n} workers": _by_copy(runs, n, 1) for n in (1, 2)},
            "goal": GOAL_OF_COPY,
        },
        "default_codec_GB_per_core_s": {
            "by wall time, 1 worker": summary["ingest, lz4, 1 workers"]["GB_per_s"],
            "by CPU time, 1 worker": summary["ingest, lz4, 1 workers"]["GB_per_cpu_s"],
            "goal": GOAL_GB_PER_CORE,
        },
    }


def _ingested(plan: IngestPlan, out: Path, client: Client) -> float:
    return ingest(plan, out, client).cpu_seconds


def _by_copy(runs: dict[str, list[tuple[float, float]]], n_workers: int, which: int) -> float:
    """Uncompressed ingest by the copy of the same turn: the median of the ratios."""
    mine, copies = runs[f"ingest, none, {n_workers} workers"], runs[f"copy, beside {n_workers} workers"]
    return statistics.median(a[which] / b[which] for a, b in zip(mine, copies, strict=True))


def _summary(values: list[tuple[float, float]]) -> dict[str, Any]:
    wall = [value for value, _ in values]
    quartiles = statistics.quantiles(wall, n=4) if len(wall) > 1 else wall * 3
    return {
        "GB_per_s": statistics.median(wall),
        "quartiles": [quartiles[0], quartiles[2]],
        "GB_per_cpu_s": statistics.median(value for _, value in values),
    }


if __name__ == "__main__":
    main()
