"""``photonflow simulate``: write an archive of simulated frames."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from frame_archive.disturbances import Disturbance
from frame_archive.simulation import SimulatedDetector
from pipeline.simulation import simulate_archive
from workflows.command_line import configure_logging, run
from workflows.facts import bytes_on_disk
from workflows.interruptions import Interruption
from workflows.option_values import size, widths_at
from workflows.printable import printable
from workflows.progress import RunProgress


@click.command(name="simulate")
@click.argument("out", type=click.Path())
@click.option("--frames", type=click.IntRange(min=1), default=20_000, show_default=True, help="Frames to write.")
@click.option("--dark", type=click.IntRange(min=0), default=1_000, show_default=True, help="Dark frames to write.")
@click.option(
    "--shape",
    callback=size,
    default="400x400",
    metavar="ROWSxCOLUMNS",
    show_default=True,
    help="Pixels of the detector.",
)
@click.option(
    "--photons-per-frame",
    type=click.FloatRange(min=0),
    help="Mean photons a frame.  [default: as many as give 2 400 clusters on 400x400, the same density elsewhere]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of everything random.")
@click.option("--gain", type=float, default=100.0, show_default=True, metavar="ADU/KEV", help="ADU a keV.")
@click.option("--noise", type=float, default=0.18, show_default=True, metavar="KEV", help="Noise of a pixel, in keV.")
@click.option(
    "--drift", type=float, default=0.0, show_default=True, help="Drift of the pedestal over the run, in noise widths."
)
@click.option(
    "--step",
    callback=widths_at,
    metavar="WIDTHS@FRAME",
    help="The pedestal jumps at a frame, by so many noise widths.",
)
@click.option(
    "--sinusoid",
    callback=widths_at,
    metavar="WIDTHS@PERIOD",
    help="The pedestal swings: amplitude in noise widths, period in frames.",
)
@click.option(
    "--common-mode",
    metavar="row|column|tile:RxC",
    help="Pixels that move together from frame to frame, in the darks too.",
)
@click.option(
    "--common-mode-rms", type=float, default=10.0, show_default=True, metavar="ADU", help="By how much they move."
)
@click.option("--bad-pixels", type=click.IntRange(min=0), help="Dead and hot pixels, masked.  [default: 1 in 10 000]")
@click.option(
    "--hot-pixels",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Pixels that became hot after the darks; not masked.",
)
@click.option(
    "--blinking-pixels",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Pixels that go up and down after the darks; not masked.",
)
@click.option(
    "--switched",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of the frames' values that are in another gain, as 2 gain bits above 14 bits of value say.",
)
@click.option(
    "--dark-photons",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Mean photons on a dark frame: of a shutter that was not closed.",
)
@click.option("--cpus", type=click.IntRange(min=1), metavar="N", help="Use N worker processes; by default one a core.")
@click.option(
    "--frames-per-chunk", type=click.IntRange(min=1), default=20, show_default=True, help="Frames of a stored chunk."
)
@click.option("--overwrite", is_flag=True, help="Replace an archive that photonflow made.")
@click.option("--progress/--no-progress", default=True, help="Show how far the run is.  [default: progress]")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(out: str, frames: int, dark: int, **options: Any) -> None:
    """Write an archive of simulated frames to OUT: a pixel detector that sees copper's Kα and Kβ photons.

    The truth of every photon and every pixel, and of all that moves, is kept in the archive, in the group `truth`. The
    same options give the same archive, byte for byte, on any number of processes. The darks were taken before the
    pedestal moved.
    """
    configure_logging(options["verbose"])
    names = ("shape", "photons_per_frame", "seed", "gain", "noise", "drift", "bad_pixels")
    detector = SimulatedDetector(**{name: options[name] for name in names}, disturbance=_disturbance(options))
    try:
        with RunProgress(frames + dark, enabled=options["progress"]) as progress:
            archive = simulate_archive(
                out,
                detector,
                frames,
                dark,
                n_workers=options["cpus"],
                frames_per_chunk=options["frames_per_chunk"],
                overwrite=options["overwrite"],
                on_step=progress.step,
                on_progress=lambda done, total: progress.update(done),
            )
    except KeyboardInterrupt as interruption:
        raise Interruption.of(
            interruption, f"what is at {out} is unfinished; run again with --overwrite"
        ) from interruption
    rows, columns = archive.frame_shape
    size = bytes_on_disk(Path(archive.address.path))
    click.echo(
        f"wrote {printable(out)}: "
        f"{frames:,} frames and {dark:,} darks of {rows}×{columns} pixels, {_readable(size)} on disk\n"
        f"find its photons with: {_process_command()} {printable(shlex.quote(out))}"
    )


def _disturbance(options: dict[str, Any]) -> Disturbance:
    step, step_frame = options["step"] or (0.0, 0)
    sinusoid, period = options["sinusoid"] or (0.0, 1000.0)
    if step_frame != int(step_frame):
        raise ValueError(f"--step comes at a whole frame, not at {step_frame:g}")
    return Disturbance(
        step=step,
        step_frame=int(step_frame),
        sinusoid=sinusoid,
        sinusoid_period=period,
        common_mode=options["common_mode"],
        common_mode_rms=options["common_mode_rms"] if options["common_mode"] else 0.0,
        hot_pixels=options["hot_pixels"],
        blinking_pixels=options["blinking_pixels"],
        switched=options["switched"],
        dark_photons=options["dark_photons"],
    )


def _readable(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def _process_command() -> str:
    return "photonflow process" if Path(sys.argv[0]).stem == "photonflow" else "python -m workflows.process"


if __name__ == "__main__":
    run(command)
