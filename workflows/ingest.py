"""``photonflow ingest``: make an archive of other people's files."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np

from frame_archive import FRAME_DTYPES
from frame_formats import SourceOptions
from frame_formats.stream import pixel_map_of
from pipeline.ingest.plan import IngestPlan
from pipeline.ingest.planning import IngestOptions, needs_workers, plan_ingest
from pipeline.ingest.run import IngestResult, ingest
from pipeline.workers.clusters import ClusterConfig, open_cluster, require_photonflow
from workflows.byte_progress import ByteProgress, readable
from workflows.command_line import ExitCode, configure_logging, run
from workflows.facts import bytes_on_disk
from workflows.interruptions import Interruption, interruptions
from workflows.option_values import size
from workflows.printable import printable


class _Darks(click.Command):
    """A command whose ``--dark`` takes all that follows up to the next option, as a shell's pattern expands to."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        in_darks = False
        for argument in args:
            if argument == "--dark":
                in_darks = True
            elif argument.startswith("-") or not in_darks:
                in_darks = in_darks and not argument.startswith("-")
                spread.append(argument)
            else:
                spread += ["--dark", argument]
        return super().parse_args(ctx, spread)


@click.command(name="ingest", cls=_Darks)
@click.argument("sources", type=click.Path(), nargs=-1)
@click.argument("out", type=click.Path(), required=False)
@click.option("--dark", multiple=True, metavar="SOURCE...", help="Darks: files as SOURCE, or first:N of the frames.")
@click.option("--mask", type=click.Path(), metavar="FILE", help="Bad pixels (NPY, NPZ or Zarr), added to the sources'.")
@click.option(
    "--store-as", type=click.Choice(FRAME_DTYPES), help="Integer type of the archive; every value has to fit."
)
@click.option(
    "--gain-bits", type=click.IntRange(0, 4), help="Bits above the value bits that say the gain.  [Jungfrau: 2]"
)
@click.option("--gap-pixels", is_flag=True, help="Detector .raw: put the pixels between chips and modules in, masked.")
@click.option("--shape", callback=lambda c, p, v: size(c, p, v) if v else None, metavar="ROWSxCOLUMNS",
              help="Stream without headers: pixels of a frame.")  # fmt: skip
@click.option("--dtype", metavar="TYPE", help="Stream: type of a value, such as uint16 or >u2.")
@click.option("--header-bytes", type=click.IntRange(min=0), default=0, help="Stream: bytes before each frame.")
@click.option(
    "--file-header-bytes", type=click.IntRange(min=0), default=0, help="Stream: bytes before the first frame."
)
@click.option("--pixel-map", metavar="FILE.npy|moench03", help="Where in a stored frame each pixel's value lies.")
@click.option("--frames-per-chunk", type=click.IntRange(min=1), metavar="N", help="Frames of a stored chunk.  [20]")
@click.option(
    "--compression", type=click.Choice(["lz4", "zstd", "none"]), default="lz4", show_default=True, help="Of the chunks."
)
@click.option(
    "--verify", type=click.Choice(["sample", "all", "none"]), default="sample", show_default=True,
    help="Chunks that are read back and compared.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with what an earlier run of the same command left.")
@click.option("--overwrite", is_flag=True, help="Replace an archive that photonflow made.")
@click.option("--cpus", type=click.IntRange(min=1), metavar="N", help="Use N worker processes; by default one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask scheduler.")
@click.option("--progress/--no-progress", default=True, help="Show how far the run is.  [default: progress]")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(sources: tuple[str, ...], out: str | None, **options: Any) -> None:
    """Make the frame archive OUT of SOURCES: HDF5/NeXus, detector .raw, TIFF, NPY, NPZ, FITS, CBF, EDF, MarCCD, Zarr.

    A source is a file, a folder, a pattern or a Zarr store; FILE::NAME names an array in it. Put --dark after OUT.
    """
    configure_logging(options["verbose"])
    if out is None or not sources:
        raise click.UsageError("name at least one source and then the archive, before --dark: ingest SOURCE… OUT.zarr")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume goes on with what is there, --overwrite begins anew: give one of them")
    if options["cpus"] is not None and options["scheduler"] is not None:
        raise click.UsageError("--cpus starts workers, --scheduler uses those that run: give one of them")
    plan, result = _ingest(sources, out, options)
    for sentence in result.ended_early[len(plan.gathered.ended_early) :]:
        click.echo(f"photonflow: warning: {printable(sentence)}", err=True)
    _say(out, plan, result, as_json=options["as_json"])
    if result.ended_early:
        click.get_current_context().exit(ExitCode.SOME_BATCHES_FAILED)


def _ingest(sources: tuple[str, ...], out: str, options: dict[str, Any]) -> tuple[IngestPlan, IngestResult]:
    wanted = _wanted(options)
    config = (
        ClusterConfig(kind="existing", scheduler=options["scheduler"])
        if options["scheduler"]
        else ClusterConfig(workers=options["cpus"])
    )
    # What is wrong with few files is said before workers are started for nothing.
    plan = None if needs_workers(sources) else plan_ingest(sources, wanted)
    interruptions.left = "nothing was written"
    try:
        with ByteProgress(plan.nbytes if plan else 0, enabled=options["progress"]) as progress, ExitStack() as started:
            progress.step(
                "connecting"
                if options["scheduler"]
                else f"starting {config.n_workers} worker{'s' * (config.n_workers > 1)}"
            )
            with interruptions.leaving_at_once():
                client = started.enter_context(open_cluster(config))
            if options["scheduler"]:
                require_photonflow(client)
            if plan is None:
                plan = plan_ingest(sources, wanted, client, progress.step)
                progress.of(plan.nbytes)
            interruptions.left = f"what is at {out} is unfinished; go on with --resume"
            result = ingest(
                plan,
                out,
                client,
                **{name: options[name] for name in ("verify", "resume", "overwrite")},
                command=shlex.join(["photonflow", *sys.argv[1:]] if _as_program() else [_program(), *sys.argv[1:]]),
                on_step=progress.step,
                on_progress=progress.update,
            )
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, interruptions.left) from None
    return plan, result


def _wanted(options: dict[str, Any]) -> IngestOptions:
    try:
        dtype = None if options["dtype"] is None else np.dtype(options["dtype"])
    except TypeError as error:
        raise click.UsageError(f"--dtype {options['dtype']}: {error}; give one such as uint16, int32 or >u2") from error
    pixel_map = None if options["pixel_map"] is None else pixel_map_of(options["pixel_map"])
    source = SourceOptions(
        shape=options["shape"],
        dtype=dtype,
        header_nbytes=options["header_bytes"],
        file_header_nbytes=options["file_header_bytes"],
        pixel_map=pixel_map,
        gap_pixels=options["gap_pixels"],
    )
    names = ("dark", "mask", "store_as", "gain_bits", "frames_per_chunk", "compression")
    return IngestOptions(**{name: options[name] for name in names}, source=source)


def _say(out: str, plan: IngestPlan, result: IngestResult, as_json: bool) -> None:
    on_disk = bytes_on_disk(Path(result.out))
    if as_json:
        said = {
            "archive": result.out,
            "frames": result.n_frames,
            "dark_frames": result.n_dark,
            "shape": list(plan.shape[1:]),
            "dtype": str(plan.dtype),
            "bytes": result.nbytes,
            "bytes_on_disk": on_disk,
            "seconds": result.seconds,
            "bytes_per_second": result.nbytes / max(result.seconds, 1e-9),
            "chunks_verified": result.n_verified,
            "frames_found": result.n_found,
            "problems": list(plan.gathered.problems),
            "ended_early": list(result.ended_early),
        }
        click.echo(json.dumps(said, indent=2))
        return
    rows, columns = plan.shape[1:]
    process = "photonflow process" if _as_program() else "python -m workflows.process"
    found = f", {result.n_found:,} of them found" if result.n_found else ""
    click.echo(
        f"wrote {printable(out)}: {result.n_frames:,} frames and {result.n_dark:,} darks of {rows}×{columns} "
        f"{plan.dtype}{found}; {readable(result.nbytes)}, {readable(on_disk)} on disk; "
        f"{result.n_verified:,} chunks read back and compared\n"
        f"find its photons with: {process} {printable(shlex.quote(out))}",
        err=True,
    )


def _as_program() -> bool:
    return Path(sys.argv[0]).stem == "photonflow"


def _program() -> str:
    return "python -m workflows.ingest"


if __name__ == "__main__":
    run(command)
