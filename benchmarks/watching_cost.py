"""What it costs to watch a run: CPU time of the scheduler's and client's process, and of the workers, run by run.

Two ways take turns: ``told``, as every run is; and ``looked at``, with the page open at a client that takes what a
browser takes, in a process of its own, whose time does not count.

    python benchmarks/watching_cost.py --frames 20000 --repeats 3 --json watching_cost.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from distributed import Client

from frame_archive.simulation import SimulatedDetector
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.simulation import simulate_archive

WAYS = ("told", "looked at")
_LOOKER = """
import sys, time
from bokeh.client import pull_session
session = pull_session(url=sys.argv[1])
print("open", flush=True)
while True:
    session.force_roundtrip()
    time.sleep(0.2)
"""


@contextlib.contextmanager
def looking(client: Client, way: str) -> Iterator[None]:
    """What goes on beside the run."""
    if way == "told":
        yield
    else:
        link = client.dashboard_link.replace("/status", "/photonflow")
        with subprocess.Popen([sys.executable, "-c", _LOOKER, link], stdout=subprocess.PIPE, text=True) as looker:
            try:
                assert looker.stdout is not None
                looker.stdout.readline()
                yield
            finally:
                looker.kill()


def cpu_seconds(client: Client) -> tuple[float, float]:
    """CPU time so far: of this process, in which the scheduler is, and of the workers."""

    def own() -> float:
        times = psutil.Process().cpu_times()
        return float(times.user + times.system)

    return own(), sum(client.run(own).values())


def measured(client: Client, run: RunOptions, way: str) -> dict[str, float]:
    """A run in one of the ways."""
    with looking(client, way):
        before, began = cpu_seconds(client), time.perf_counter()
        execute(prepare(run), client)
        seconds, after = time.perf_counter() - began, cpu_seconds(client)
    return {"seconds": seconds, "scheduler": after[0] - before[0], "workers": after[1] - before[1]}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000, help="of 400x400 pixels")
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each way")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, help="where the archive goes; by default temporary files")
    options = parser.parse_args()
    with contextlib.ExitStack() as opened:
        work = options.work or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        client = opened.enter_context(open_cluster(ClusterConfig(workers=2, dashboard_address="127.0.0.1:0")))
        archive, out = str(work / "cost.zarr"), str(work / "cost.clusters.zarr")
        if not Path(archive).exists():
            simulate_archive(archive, SimulatedDetector(), options.frames, 300, client=client)
        run = RunOptions(archive, out, batch_size=options.batch_size, frames=(0, options.frames), overwrite=True)
        measured(client, run, "told")  # brings the page, and warms everything
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(options.repeats):
            for way in WAYS:
                runs[way].append(measured(client, run, way))
    print(f"{'':10} {'seconds':>9} {'scheduler CPU s':>16} {'workers CPU s':>14} {'more than told':>20}")
    figures = {way: {name: statistics.median(one[name] for one in runs[way]) for name in runs[way][0]} for way in WAYS}
    base = figures["told"]
    for way, figure in figures.items():
        more = (figure["scheduler"] - base["scheduler"]) / (base["scheduler"] + base["workers"])
        print(f"{way:10} {figure['seconds']:9.2f} {figure['scheduler']:16.2f} {figure['workers']:14.2f} {more:20.2%}")
    if options.json is not None:
        options.json.write_text(json.dumps({"frames": options.frames, "runs": runs, "medians": figures}, indent=2))


if __name__ == "__main__":
    main()
