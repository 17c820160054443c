"""``photonflow roofline``: how fast a machine can be at best, and why."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cluster_store import DatasetLayout
from finder import FinderParameters
from frame_archive import ArchiveAddress, location_of
from object_stores import is_url
from pipeline.arithmetic_rates import arithmetic_rates
from pipeline.ceilings import Subject, keep_ceilings
from pipeline.ceilings.machine import cores
from pipeline.ceilings.measuring import measure_ceilings
from pipeline.preparation import default_output, require_no_dataset
from roofline.machines import GPUS, LINKS
from workflows.ceilings_table import print_ceilings
from workflows.command_line import configure_logging, run
from workflows.finder_study import FinderStudy, print_finder_study
from workflows.matmul_study import MatmulStudy, print_rates, print_study, rates_as_json
from workflows.option_values import NumberRange, size
from workflows.progress import RunProgress
from workflows.terminal import stdout_console

_RATES = NumberRange(1, 1e24)
_LONGEST_SIDE = 1 << 20  # Of a frame, in pixels.


@click.group(name="roofline")
def command() -> None:
    """How fast a machine can be at best, and which resource binds."""


@command.command()
@click.option(
    "--machine",
    type=click.Choice(list(GPUS), case_sensitive=False),
    help="A machine by its data sheet.  [default: a100-80]",
)
@click.option("--peak", type=_RATES, metavar="FLOP/S", help="A machine of one's own.")
@click.option("--bandwidth", type=_RATES, metavar="B/S", help="Goes with --peak.")
@click.option(
    "--n", "side", type=click.IntRange(1, 1 << 16), default=4096, show_default=True, help="Side of the matrices."
)
@click.option(
    "--itemsize",
    type=click.IntRange(1, 1024),
    default=2,
    show_default=True,
    help="Bytes an element: 2 for FP16, 4 for FP32.",
)
@click.option("--time", "timed", is_flag=True, help="Measure small rates on this machine too (a few seconds).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def matmul(
    machine: str | None,
    peak: float | None,
    bandwidth: float | None,
    side: int,
    itemsize: int,
    timed: bool,
    as_json: bool,
) -> None:
    """Study the traffic of a matrix multiply: tiles, fast memory, batches, and the ridge point.

    The roofline's textbook case, and the model that photonflow's own figures follow.
    """
    configure_logging(0)
    study = _study(machine, peak, bandwidth, side, itemsize)
    rates = arithmetic_rates() if timed else ()
    if as_json:
        measured = {"measured": rates_as_json(rates)} if timed else {}
        click.echo(json.dumps(study.as_json() | measured, indent=2))
        return
    console = stdout_console()
    print_study(study, console)
    if timed:
        console.print()
        print_rates(rates, console)


@command.command()
@click.option(
    "--machine",
    type=click.Choice(list(GPUS), case_sensitive=False),
    default="a100-80",
    show_default=True,
    help="By its data sheet.",
)
@click.option(
    "--link",
    type=click.Choice(list(LINKS), case_sensitive=False),
    help="What frames come over.  [default: they are in its memory]",
)
@click.option("--shape", callback=size, default="400x400", metavar="ROWSxCOLUMNS", show_default=True, help="A frame.")
@click.option("--cluster-size", callback=size, default="3x3", metavar="ROWSxCOLUMNS", show_default=True, help="Window.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def finder(
    machine: str, link: str | None, shape: tuple[int, int], cluster_size: tuple[int, int], as_json: bool
) -> None:
    """Study the traffic of the cluster finder: frames a pass, tiles with their halo, and what binds.

    Data sheets only; what a machine of yours does, `measure` measures.
    """
    configure_logging(0)
    if min(shape) < 1 or max(shape) > _LONGEST_SIDE:
        raise click.UsageError(f"--shape {shape[0]}x{shape[1]}: each side is from 1 to {_LONGEST_SIDE}")
    window = FinderParameters(cluster_size=cluster_size).cluster_size
    study = FinderStudy(GPUS[machine], None if link is None else LINKS[link], shape, window)
    if as_json:
        click.echo(json.dumps(study.as_json(), indent=2))
    else:
        print_finder_study(study, stdout_console())


@command.command()
@click.argument("archive", required=False, type=click.Path())
@click.option("--out", type=click.Path(), help="Where the dataset would go.  [default: beside the archive]")
@click.option("--frames-path", metavar="NAME", help="The array of frames inside the archive, where it isn't obvious.")
@click.option("--cluster-size", callback=size, default="3x3", metavar="ROWSxCOLUMNS", show_default=True, help="Window.")
@click.option("--signal-dtype", type=click.Choice(["int32", "float32"]), default="int32", show_default=True)
@click.option(
    "--window",
    type=NumberRange(0.001, 2.0),
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="How long each of five looks at a rate takes.",
)
@click.option("--progress/--no-progress", default=True, help="Say what is measured.  [default: progress]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def measure(
    archive: str | None,
    out: str | None,
    frames_path: str | None,
    cluster_size: tuple[int, int],
    signal_dtype: str,
    window: float,
    progress: bool,
    as_json: bool,
    verbose: int,
) -> None:
    """Measure what this machine does at best, under a minute: memory, arithmetic, and for ARCHIVE reading and decoding
    its own chunks and writing its dataset's.

    What was measured is kept for this machine, and runs are compared with it.
    """
    configure_logging(verbose)
    subject = None if archive is None else _subject(archive, out, frames_path, cluster_size, signal_dtype)
    busy = os.getloadavg()[0]
    with RunProgress(1, enabled=progress) as shown:
        if busy > 0.5 * cores():
            shown.note(
                f"photonflow: warning: other programs are at work (a load of {busy:.1f} on {cores()} cores), so that "
                "what is measured is too low: measure again when they have ended"
            )
        ceilings = measure_ceilings(subject, lambda name: shown.step(f"measuring {name}"), window)
    keep_ceilings(ceilings)
    if as_json:
        click.echo(json.dumps(ceilings.as_json(), indent=2))
    else:
        print_ceilings(ceilings, stdout_console())


def _subject(
    path: str, out: str | None, frames_path: str | None, cluster_size: tuple[int, int], signal_dtype: str
) -> Subject:
    for place in (path, out):
        if place is not None and is_url(place):
            raise ValueError(
                f"{place} is on an object store, and what its network gives changes from one minute to the next: "
                "measure with a local archive"
            )
    require_no_dataset(location_of(path), "roofline measure")
    archive = ArchiveAddress(path, frames_path).open()
    parameters = FinderParameters(cluster_size=cluster_size)
    layout = DatasetLayout(
        n_frames=archive.n_frames,
        first_frame=0,
        batch_size=min(2000, archive.n_frames),
        frame_shape=archive.frame_shape,
        cluster_size=parameters.cluster_size,
        signal_dtype=signal_dtype,
    )
    place = str(Path(out or default_output(archive.address.path)).absolute())
    return Subject(archive, layout, place, parameters, archive.pixel_mask)


def _study(machine: str | None, peak: float | None, bandwidth: float | None, side: int, itemsize: int) -> MatmulStudy:
    if peak is not None and bandwidth is not None and machine is None:
        return MatmulStudy("given", "--peak and --bandwidth", peak, "", bandwidth, side, itemsize)
    if peak is not None or bandwidth is not None:
        raise click.UsageError("give both --peak and --bandwidth and no --machine, or --machine alone")
    sheet = GPUS[machine or "a100-80"]
    rates = {2: (sheet.bf16, "BF16 and FP16, matrix units"), 4: (sheet.float32, "FP32, vector units")}
    if itemsize not in rates:
        raise click.UsageError(
            f"--itemsize {itemsize}: the data sheets here have rates for 2 bytes (FP16) and 4 (FP32); give your "
            "machine's with --peak and --bandwidth"
        )
    return MatmulStudy(sheet.name, sheet.source, *rates[itemsize], sheet.bandwidth, side, itemsize)


if __name__ == "__main__":
    run(command)
