"""What a batch costs the client and the scheduler, and what they hold: ``python -m benchmarks.scaling``.

An archive of tiny frames is processed in batches of one frame, by workers that do not read it and find the same cluster
in each, so that next to nothing is left but what every batch costs: its tasks, its line in the journal, its rows of the
tables. Scheduler and client share a process; its processor time and memory are what is measured, each number of batches
in a process of its own. Beside it, real batches on workers of which one is slow. The JSON goes to
`benchmarks/results/scaling.json`, or where it is told.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import xxhash
from distributed import get_worker

from finder.offset import Offset
from frame_archive import create_archive
from pipeline.batches.found import ClusterRows, FoundBatch
from pipeline.batches.plan import Batch
from pipeline.batches.reports import BatchCount, BatchReport
from pipeline.batches.run_record import RunProgress
from pipeline.ceilings.machine import machine
from pipeline.preparation import RunOptions, prepare
from pipeline.run import execute
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.clusters import open_cluster

SHAPE = (16, 16)
FRAMES_PER_CHUNK, DARKS = 100, 200
# Rows in a chunk of the dataset: so few that a chunk is shared by as many batches as where each has a few clusters.
ROWS_PER_CHUNK = 512
SHAPE_OF_TAIL, FRAMES_OF_TAIL, BATCHES_OF_TAIL = (400, 400), 4_000, 40
PEDESTAL, NOISE, PHOTON = 1000, 5.0, 500


def make_archive(path: Path, n_frames: int, shape: tuple[int, int] = SHAPE) -> None:
    """Frames of noise with one photon each, somewhere."""
    rng = np.random.default_rng(1)
    archive = create_archive(path, (n_frames, *shape), "uint16", n_dark=DARKS, frames_per_chunk=FRAMES_PER_CHUNK)
    archive.write_dark(0, rng.normal(PEDESTAL, NOISE, (DARKS, *shape)).round().astype(np.uint16))
    for first in range(0, n_frames, FRAMES_PER_CHUNK):
        n = min(FRAMES_PER_CHUNK, n_frames - first)
        frames = rng.normal(PEDESTAL, NOISE, (n, *shape)).round().astype(np.uint16)
        y, x = (rng.integers(1, side - 1, n) for side in shape)
        frames[np.arange(n), y, x] += PHOTON
        archive.write_frames(first, frames)


def memory_kb(field: str) -> int:
    """A line of this process's status, in kB: VmRSS is now, VmHWM the most that there was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def one(n_batches: int, workers: int, folder: Path) -> dict[str, Any]:
    """Process so many batches, in this process and its workers."""
    archive, out = folder / "frames.zarr", folder / "clusters.zarr"
    make_archive(archive, n_batches)
    prepared = prepare(RunOptions(str(archive), str(out), batch_size=1, backend="cpu"))
    prepared = replace(prepared, layout=replace(prepared.layout, rows_per_chunk=ROWS_PER_CHUNK))
    found: dict[str, Any] = {"n_batches": n_batches, "workers": workers}
    marks: list[tuple[int, float, int]] = []

    def step(name: str) -> None:
        if name == "finding clusters":
            found["kb_before"] = memory_kb("VmRSS")
            found["began"], found["cpu_began"] = time.perf_counter(), time.process_time()

    def progress(done: RunProgress) -> None:
        if done.batches % max(n_batches // 20, 1) == 0:
            marks.append((done.batches, time.process_time() - found["cpu_began"], memory_kb("VmRSS")))
            print("{:,} batches, {:,.1f} s of a core, {:,} kB".format(*marks[-1]), file=sys.stderr, flush=True)
        if done.batches == n_batches:
            journal = Path(f"{out}.journal")
            found["journal_bytes"] = sum(file.stat().st_size for file in journal.iterdir())

    with open_cluster(ClusterConfig(workers=workers)) as client:
        client.run(_find_nothing)
        execute(prepared, client, on_step=step, on_progress=progress, on_notice=lambda notice: None)
        scheduler = client.cluster.scheduler
        found["tasks_left"] = len(scheduler.tasks)
    wall, cpu = time.perf_counter() - found.pop("began"), time.process_time() - found.pop("cpu_began")
    with xr.open_zarr(out, group="batches") as table:
        done = Counter(table.worker.values.tolist())
    return {
        **found,
        "seconds": wall,
        "client_and_scheduler_ms_a_batch": 1e3 * cpu / n_batches,
        "kb_after": memory_kb("VmRSS"),
        "kb_at_most": memory_kb("VmHWM"),
        "metadata_bytes": sum(file.stat().st_size for file in out.rglob("zarr.json")),
        "batches_of_each_worker": sorted(done.values()),
        "marks": [{"batches": n, "cpu_seconds": cpu, "kb": kb} for n, cpu, kb in marks],
    }


def _find_nothing() -> None:
    """On a worker: leave out what takes time in proportion to the frames."""
    from pipeline.batches import worker
    from pipeline.batches.run_plugin import RunPlugin

    def found(plugin: RunPlugin, batch: Batch, start: object) -> worker._Found:
        one = np.zeros(1, np.uint16)
        rows = ClusterRows(np.array([batch.index], np.uint32), one, one, np.zeros((1, 3, 3), np.int16))
        now = time.time()
        count = BatchCount(
            batch=batch,
            n_clusters=1,
            nbytes=rows.__sizeof__(),
            worker=str(get_worker().name),
            began=now,
            ended=now,
            read_seconds=0.0,
            decode_seconds=0.0,
            read_bytes=plugin.archive.frame_nbytes,
            stored_bytes=0,
            find_seconds=0.0,
            minor_faults=0,
            movement=0.0,
            offset=Offset(0.0, 0.0),
            digest=xxhash.xxh3_128_hexdigest(b"%d" % batch.index),
            stamp=xxhash.xxh3_128_hexdigest(b"%d" % batch.start),
        )
        return worker._Found(FoundBatch([rows], rows[:0]), np.ones(1, np.uint32), BatchReport(count))

    worker._find = found


def tail(workers: int, folder: Path, slowed: bool) -> dict[str, Any]:
    """Process batches that take a while on workers of which one, if so wanted, stands still four fifths of the time."""
    archive, out = folder / "long.zarr", folder / "tail.zarr"
    make_archive(archive, FRAMES_OF_TAIL, SHAPE_OF_TAIL)
    prepared = prepare(RunOptions(str(archive), str(out), batch_size=FRAMES_OF_TAIL // BATCHES_OF_TAIL, backend="cpu"))
    over = threading.Event()
    with open_cluster(ClusterConfig(workers=workers)) as client:
        pids = client.run(os.getpid)
        slow = threading.Thread(target=_hold_back, args=(next(iter(pids.values())), over))
        if slowed:
            slow.start()
        try:
            execute(prepared, client, on_notice=lambda notice: None)
        finally:
            over.set()
            if slowed:
                slow.join()
    with xr.open_zarr(out, group="batches", decode_times=False) as table:
        found, began = table.found.values, table.began.values
        last = sorted(float(found[table.worker.values == worker].max()) for worker in set(table.worker.values))
        return {
            "workers": workers,
            "one_slowed": slowed,
            "n_batches": len(found),
            "seconds": float(found.max() - began.min()),
            "median_seconds_a_batch": float(np.median(found - began)),
            "longest_seconds_a_batch": float((found - began).max()),
            "seconds_from_the_first_worker_done_to_the_last": last[-1] - last[0],
            "batches_of_each_worker": sorted(Counter(table.worker.values.tolist()).values()),
        }


def _hold_back(pid: int, over: threading.Event) -> None:
    while not over.wait(0.05):
        os.kill(pid, signal.SIGSTOP)
        over.wait(0.2)
        os.kill(pid, signal.SIGCONT)


def main() -> None:
    """Measure each number of batches, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tail", type=int, default=4, metavar="WORKERS", help="0 leaves the tail out")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/scaling.json"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(one(options.batches[0], options.workers, Path(folder))))
        return
    results: dict[str, Any] = {"machine": machine(), "runs": [], "tails": []}
    for n in options.batches:
        call = [sys.executable, "-m", "benchmarks.scaling", "--one", "--workers", str(options.workers), "--batches"]
        output = subprocess.run([*call, str(n)], check=True, stdout=subprocess.PIPE, text=True).stdout
        results["runs"].append(json.loads(output.splitlines()[-1]))
        print(json.dumps({key: value for key, value in results["runs"][-1].items() if key != "marks"}), flush=True)
    for slowed in (False, True) if options.tail else ():
        with tempfile.TemporaryDirectory() as folder:
            results["tails"].append(tail(options.tail, Path(folder), slowed))
        print(json.dumps(results["tails"][-1]), flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
