"""Hours of trouble: kills, interruptions and flipped bits at seeded random moments, and no cluster may be lost.

    python benchmarks/soak.py --seconds 600 --seed 1

Every trial disturbs the run of one simulated archive in one way, goes on with ``--resume`` until it is done, and
compares the dataset array for array with that of an undisturbed run. The end is a table and, with ``--json``, a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import xarray as xr

BIN = Path(sys.executable).parent
ARRAYS = ("signal", "x", "y", "frame_index", "n_clusters", "frame_number", "frame_status")
LONGEST_RUN = 1200.0


@dataclass
class Account:
    """What was done to the runs, and what they lost."""

    trials: Counter[str] = field(default_factory=Counter)
    kills_survived: Counter[str] = field(default_factory=Counter)
    bad_inputs_tried: int = 0
    bad_inputs_refused: int = 0
    clusters_compared: int = 0
    clusters_lost: int = 0
    faults: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The account as JSON has it."""
        return vars(self) | {"trials": dict(self.trials), "kills_survived": dict(self.kills_survived)}


class Soak:
    """One archive, its undisturbed dataset, and the ways to disturb a run of it."""

    def __init__(self, folder: Path, seed: int, frames: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.account = Account()
        self.archive = folder / "a.zarr"
        self.out = folder / "out.zarr"
        size = ("--frames", str(frames), "--dark", "200", "--shape", "64x64", "--cpus", "1")
        self._must(self._start("simulate", str(self.archive), *size, "--overwrite"))
        self.options = ("--batch-size", "10", "--cpus", "2", "--no-progress")
        whole = folder / "whole.zarr"
        began = time.monotonic()
        self._must(self._start("process", str(self.archive), "--out", str(whole), *self.options))
        self.seconds = time.monotonic() - began
        self.expected = load(whole)

    def trouble(self) -> dict[str, Callable[[], None]]:
        """The trials by name."""
        return {
            "workers killed": self.kill_workers,
            "client killed": lambda: self.end_client(signal.SIGKILL),
            "Ctrl-C": lambda: self.end_client(signal.SIGINT),
            "SIGTERM": lambda: self.end_client(signal.SIGTERM),
            "scheduler killed": self.kill_scheduler,
            "bit flipped": self.flip_a_bit,
        }

    def kill_workers(self) -> None:
        """SIGKILL a worker now and again until the run is done."""
        run = self._process("--overwrite")
        while run.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(timeout=self.random.expovariate(1 / (0.3 * self.seconds)))
            workers = workers_of(run)
            if run.poll() is None and workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    self.random.choice(workers).kill()
                    self.account.kills_survived["worker"] += 1
        if self._ended(run, {0}):
            self.compare(self.out)

    def end_client(self, number: signal.Signals) -> None:
        """End the client at a random moment, and go on until the run is done."""
        run = self._process("--overwrite")
        moment = self.random.uniform(0.2, 1.0) * self.seconds
        for _ in range(20):
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(timeout=moment)
            if run.poll() is None:
                run.send_signal(number)
                self.account.kills_survived[f"client by {number.name}"] += 1
            if not self._ended(run, {0, -number, 128 + number}):
                return
            self._no_process_left(run)
            if run.returncode == 0:
                self.compare(self.out)
                return
            # Nothing to continue yet if it ended before anything was written.
            run = self._process("--resume" if self.out.exists() else "--overwrite")
            moment = self.random.uniform(0.4, 1.6) * self.seconds
        self.account.faults.append(f"{number.name}: not done after 20 interruptions")

    def kill_scheduler(self) -> None:
        """SIGKILL a scheduler that runs apart, and go on with another one."""
        with contextlib.ExitStack() as stack:
            scheduler, address = self._dask(stack)
            run = self._process("--overwrite", scheduler=address)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(timeout=self.random.uniform(0.3, 1.0) * self.seconds)
            if run.poll() is None:
                scheduler.kill()
                self.account.kills_survived["scheduler"] += 1
            if not self._ended(run, {0, 1}):
                return
        if run.returncode == 1:
            with contextlib.ExitStack() as stack:
                _, address = self._dask(stack)
                run = self._process("--resume" if self.out.exists() else "--overwrite", scheduler=address)
                if not self._ended(run, {0}):
                    return
        self.compare(self.out)

    def flip_a_bit(self) -> None:
        """Flip a bit in a file of the archive, or of a dataset: an error in one sentence, or the right answer."""
        bad = self.folder / "bad.zarr"
        shutil.rmtree(bad, ignore_errors=True)
        of_dataset = self.random.random() < 0.3
        shutil.copytree(self.folder / "whole.zarr" if of_dataset else self.archive, bad)
        file = self.random.choice(sorted(path for path in bad.rglob("*") if path.is_file() and path.stat().st_size))
        content = bytearray(file.read_bytes())
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        file.write_bytes(content)
        self.account.bad_inputs_tried += 1
        if of_dataset:
            try:
                found = load(bad)
            except Exception:
                # Any error will do: the point is that no wrong value comes back.
                self.account.bad_inputs_refused += 1
                return
            self._same(found, f"a bit of {file.relative_to(bad)}")
            return
        run = self._process("--overwrite", archive=bad)
        if self._ended(run, {0, 1}):
            if run.returncode == 1:
                self.account.bad_inputs_refused += 1
            else:
                self.compare(self.out, f"a bit of {file.relative_to(bad)}")

    def compare(self, out: Path, what: str = "the run") -> None:
        """Compare a dataset array for array with the undisturbed one."""
        self._same(load(out), what)

    def _same(self, found: xr.Dataset, what: str) -> None:
        expected = self.expected
        self.account.clusters_compared += expected.sizes["cluster"]
        lost = abs(expected.sizes["cluster"] - found.sizes["cluster"])
        for name in ARRAYS:
            if name in expected and not np.array_equal(expected[name].values, found[name].values):
                lost = max(lost, 1)
                self.account.faults.append(f"{what}: {name} differs")
        self.account.clusters_lost += lost

    def _process(self, *options: str, scheduler: str | None = None, archive: Path | None = None) -> Run:
        given = [option for option in self.options if scheduler is None or option not in ("--cpus", "2")]
        where = () if scheduler is None else ("--scheduler", scheduler, "--cluster-timeout", "60")
        return self._start("process", str(archive or self.archive), "--out", str(self.out), *given, *where, *options)

    def _start(self, *arguments: str) -> Run:
        return Run(
            [BIN / "photonflow", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _must(self, run: Run) -> None:
        if not self._ended(run, {0}):
            raise SystemExit(self.account.faults[-1])

    def _ended(self, run: Run, codes: set[int]) -> bool:
        try:
            _, said = run.communicate(timeout=LONGEST_RUN)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            self.account.faults.append(f"a run hung: {run.args}")
            return False
        if "Traceback" in said or run.returncode not in codes:
            self.account.faults.append(f"exit {run.returncode}: {said[-600:]}")
            return False
        return True

    def _no_process_left(self, run: Run) -> None:
        deadline = time.monotonic() + 30
        while (left := session_of(run)) and time.monotonic() < deadline:
            psutil.wait_procs(left, timeout=1)
        if left:
            self.account.faults.append(f"left behind: {left}")
            os.killpg(run.pid, signal.SIGKILL)

    def _dask(self, stack: contextlib.ExitStack) -> tuple[Run, str]:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)

        def start(*arguments: str) -> Run:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            command = [BIN / "dask", *arguments, "--no-dashboard", "--scheduler-file", file]
            process = Run(command, cwd=self.folder, start_new_session=True, **quiet)
            stack.callback(process.wait)
            stack.callback(kill_session, process)
            return process

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
        start("worker", "--nthreads", "1", "--nworkers", "2")
        while not (file.exists() and file.read_text()):
            time.sleep(0.1)
        return scheduler, json.loads(file.read_text())["address"]


class Run(subprocess.Popen[str]):
    """A process with a session of its own."""


def load(path: Path) -> xr.Dataset:
    """All values of a dataset."""
    return xr.open_zarr(path).load()


def workers_of(run: Run) -> list[psutil.Process]:
    """The worker processes of a run: its children that Python spawned, the one that tracks resources left out."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(run.pid).children()
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return []


def session_of(run: Run) -> list[psutil.Process]:
    """What still lives of a run's session."""
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == run.pid and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


def kill_session(run: Run) -> None:
    """End a process and its children."""
    for process in session_of(run):
        with contextlib.suppress(psutil.Error):
            process.kill()


def main() -> None:
    """Soak for as long as was asked, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--only", action="append", help="only trials of this name; may be given several times")
    parser.add_argument("--json", type=Path, help="write the account there too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="photonflow-soak-") as folder:
        began = time.monotonic()
        soak = Soak(Path(folder), arguments.seed, arguments.frames)
        names = arguments.only or list(soak.trouble())
        while time.monotonic() - began < arguments.seconds and not soak.account.faults:
            for name in soak.random.sample(names, len(names)):
                print(f"{time.monotonic() - began:7.0f} s  {name}", file=sys.stderr, flush=True)
                soak.account.trials[name] += 1
                soak.trouble()[name]()
                if time.monotonic() - began > arguments.seconds or soak.account.faults:
                    break
        account = soak.account.as_dict() | {"seconds": round(time.monotonic() - began), "seed": arguments.seed}
    if arguments.json:
        arguments.json.write_text(json.dumps(account, indent=2) + "\n")
    print(json.dumps(account, indent=2))
    sys.exit(1 if account["faults"] else 0)


if __name__ == "__main__":
    main()
