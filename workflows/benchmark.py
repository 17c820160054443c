"""``photonflow benchmark``: the CPU finder side by side with its peer, on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from workflows.command_line import configure_logging, run
from workflows.whole_files import write_whole

PARTS = ("peer", "plain", "rates", "shapes", "ladder", "run", "start")


@click.command(name="benchmark")
@click.option("--out", type=click.Path(), help="The JSON to write.  [default: one a machine in benchmarks/results/]")
@click.option(
    "--parts",
    default=",".join(PARTS),
    show_default=True,
    metavar="NAMES",
    help="What to measure, with commas between: against the peer; masks, types and windows; photon rates; shapes; the "
    "ladder of ideas; whole runs; starts.",
)
@click.option("--frames", type=click.IntRange(min=4), help="Frames of 400x400 for 3x3.  [default: 300]")
@click.option("--repeats", type=click.IntRange(min=1), help="Timed runs of each.  [default: 5]")
@click.option("--tiny", is_flag=True, help="A few small frames: shows that all works; its times mean nothing.")
@click.option(
    "--peer-python",
    type=click.Path(),
    help="A Python that has aare.  [default: one made in .peer/ with Python 3.12 or later, if there is one, else ours]",
)
@click.option("--peer/--no-peer", default=True, help="Compare with aare.  [default: peer]")
@click.option(
    "--work", type=click.Path(), help="Where the archive of the whole runs goes.  [default: as temporary files]"
)
def command(
    out: str | None,
    parts: str,
    frames: int | None,
    repeats: int | None,
    tiny: bool,
    peer_python: str | None,
    peer: bool,
    work: str | None,
) -> None:
    """Time the finder against aare, and what each of its ideas brings, in under ten minutes on two cores."""
    configure_logging(0)
    wanted = [name.strip() for name in parts.split(",") if name.strip()]
    for name in wanted:
        if name not in PARTS:
            raise click.UsageError(f"--parts {name} is none of {', '.join(PARTS)}")
    spec = find_spec("benchmarks.race") if find_spec("benchmarks") else None
    if spec is None or spec.origin is None:
        raise ValueError("the benchmark is part of photonflow's checkout, and not of what is installed: run it there")
    root = Path(spec.origin).parents[2]
    given = ["--parts", ",".join(wanted), *(["--tiny"] if tiny else []), *(["--work", work] if work else [])]
    given += [f"--{name}={value}" for name, value in (("frames", frames), ("repeats", repeats)) if value]
    if peer:
        given += ["--peer-python", peer_python] if peer_python else ["--peer-home", str(root / ".peer")]
    with tempfile.TemporaryDirectory() as folder:
        result = _measured(Path(folder) / "result.json", given)
    _print(result)
    place = Path(out) if out else root / "benchmarks" / "results" / f"finder_{_name(result['machine'])}.json"
    write_whole(place, f"{json.dumps(result, indent=1, ensure_ascii=False)}\n".encode())
    click.echo(f"\nwritten to {place}")


def _measured(place: Path, given: list[str]) -> dict[str, Any]:
    # Late, as are all imports that --help has no need of.
    from pipeline.workers.cluster_config import WORKER_ENVIRONMENT

    environment = os.environ | {name: str(value) for name, value in WORKER_ENVIRONMENT.items()}
    ended = subprocess.run([sys.executable, "-m", "benchmarks.race", str(place), *given], check=False, env=environment)
    if ended.returncode:
        raise RuntimeError("the benchmark did not come to its end: see above why")
    result: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return result


def _print(result: dict[str, Any]) -> None:
    from benchmarks.race.report import tables
    from workflows.terminal import print_columns, stdout_console

    console = stdout_console()
    machine = result["machine"]
    console.print(f"{machine['processor']}, {machine['cores']} cores; {machine['versions']}", markup=False)
    if result["peer"] is not None:
        console.print("against " + ", ".join(f"{name} {version}" for name, version in result["peer"].items()))
    for headings, rows in tables(result):
        console.print()
        print_columns(console, headings, rows)


def _name(machine: dict[str, str]) -> str:
    return re.sub(r"[^a-z0-9]+", "_", f"{machine['processor']}_{machine['cores']}_cores".lower()).strip("_")


if __name__ == "__main__":
    run(command)
