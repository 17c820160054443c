"""``photonflow ingest``: make an archive of other people's files; its options."""

from __future__ import annotations

from typing import Any

import click

from workflows.command_line import run
from workflows.interruptions import interruptions
from workflows.option_values import size

_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32")


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
@click.argument("sources", type=click.Path(), nargs=-1, metavar="SOURCE...")
@click.argument("out", type=click.Path(), required=False, metavar="OUT.zarr")
@click.option("--dark", multiple=True, metavar="SOURCE...", help="Darks: files as SOURCE, or first:N of the frames.")
@click.option("--mask", type=click.Path(), metavar="FILE", help="Bad pixels (NPY, NPZ or Zarr), added to the sources'.")
@click.option("--store-as", type=click.Choice(_DTYPES), help="Integer type of the archive; every value has to fit.")
@click.option(
    "--gain-bits", type=click.IntRange(0, 8), help="Bits above the value bits that say the gain.  [Jungfrau: 2]"
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
@click.option("--cluster", metavar="FILE.yaml", help="Use the workers that a YAML file describes (cluster_configs/).")
@click.option("--progress/--no-progress", default=True, help="Show how far the run is.  [default: progress]")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(sources: tuple[str, ...], out: str | None, **options: Any) -> None:
    """Make a frame archive of HDF5/NeXus, detector .raw, TIFF, NPY, NPZ, FITS, CBF, EDF and MarCCD files, or of Zarr.

    SOURCE is a file, a folder, a pattern or a Zarr store; FILE::NAME names an array in it. Put --dark behind OUT.zarr.
    """
    if out is None or not sources:
        raise click.UsageError("name at least one source and then the archive, before --dark: ingest SOURCE… OUT.zarr")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume goes on with what is there, --overwrite begins anew: give one of them")
    if sum(options[name] is not None for name in ("cpus", "scheduler", "cluster")) > 1:
        raise click.UsageError("--cpus, --scheduler and --cluster exclude each other: give one of them")
    with interruptions.leaving_at_once():
        # Late, as in ``process``: this module is imported for ``--help``, and by every worker too.
        from workflows.ingest_run import ingest_sources
    ingest_sources(sources, out, options)


if __name__ == "__main__":
    run(command)
