"""``photonflow export``: write the clusters of a dataset in another format, or make a dataset of a .clust file."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from cluster_store.formats import FORMATS, ClustLayout, Exported, export_clusters, import_clusters
from cluster_store.formats.clust_layout import DTYPES
from cluster_store.formats.places import local_place
from pipeline.output import provenance
from pipeline.output.ownership import living_writer
from workflows.command_line import configure_logging, run
from workflows.exported_files import READ_BACK, how_to_open, require_no_export
from workflows.facts import bytes_on_disk, human_bytes
from workflows.interruptions import Interruption
from workflows.option_values import frame_range, size
from workflows.printable import printable
from workflows.progress import RunProgress


@click.command(name="export")
@click.argument("source", type=click.Path())
@click.option(
    "--to", required=True, type=click.Path(), help="What to write: .parquet, .clust, .h5 (or .hdf5, .nxs); or .zarr."
)
@click.option(
    "--frames",
    callback=frame_range,
    metavar="A:B",
    help="Only the frames from A to before B.  [default: all]",
)
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    help="Type of the signal in the .clust file.  [default: to write, the dataset's; to read, int32]",
)
@click.option(
    "--cluster-size",
    callback=lambda ctx, param, text: None if text is None else size(ctx, param, text),
    metavar="ROWSxCOLUMNS",
    help="The window of a .clust file to read.  [default: 3x3]",
)
@click.option(
    "--frame-shape",
    callback=lambda ctx, param, text: None if text is None else size(ctx, param, text),
    metavar="ROWSxCOLUMNS",
    help="The pixels of the detector of a .clust file to read.",
)
@click.option("--overwrite", is_flag=True, help="Replace what an earlier export wrote there.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.  [default: progress]")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(source: str, to: str, verbose: int, **options: Any) -> None:
    """Write the clusters of the dataset SOURCE in another format, which the end of --to says.

    x.parquet is a folder with one file a batch, x.h5 (also x.hdf5, x.nxs) one HDF5 file laid out as NeXus says, x.clust
    the file of the aare library. With SOURCE a .clust file and --to x.zarr, the other way round: a dataset. The others
    are for other programs, and are not read back.
    """
    configure_logging(verbose)
    _require_fitting(source, to, options)
    try:
        with ExitStack() as shown:
            progress: list[RunProgress] = []

            def start(n_frames: int) -> None:
                progress.append(shown.enter_context(RunProgress(n_frames, enabled=options["progress"])))
                progress[0].step(f"writing {to}")

            task = _import if Path(source).suffix.lower() == READ_BACK else _export
            exported = task(source, to, options, on_start=start, on_progress=lambda *done: progress[0].update(*done))
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, f"{to} is as it was before") from interruption
    click.echo(
        f"wrote {printable(to)}: {exported.n_frames:,} frames with {exported.n_clusters:,} clusters, "
        f"{human_bytes(bytes_on_disk(exported.place))}\n"
        f"open it   {printable(how_to_open(exported, to))}"
    )


def _require_fitting(source: str, to: str, options: dict[str, Any]) -> None:
    local_place(to)
    if Path(source).suffix.lower() == READ_BACK:
        if Path(to).suffix.lower() != ".zarr":
            raise ValueError(f"a .clust file becomes a dataset first: give --to a name that ends with .zarr, not {to}")
        if options["frame_shape"] is None:
            raise click.UsageError(
                "a .clust file does not say how large its detector is: give --frame-shape, as 400x400"
            )
        if options["frames"] != (None, None):
            raise click.UsageError("--frames is for exports from a dataset: leave it out, and export the dataset then")
        return
    require_no_export(source)
    if Path(to).suffix.lower() == ".zarr":
        if Path(source).is_file():
            raise ValueError(
                f"{source} does not end with .clust, and only .clust files become datasets: rename it if it is one"
            )
        raise ValueError(f"{to} would be a dataset again: give --to a name that ends with one of {', '.join(FORMATS)}")
    for name in ("cluster_size", "frame_shape"):
        if options[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is for reading a .clust file: leave it out")


def _export(source: str, to: str, options: dict[str, Any], **watching: Any) -> Exported:
    given = {name: options[name] for name in ("frames", "dtype", "overwrite")}
    return export_clusters(source, to, **given, **watching)


def _import(source: str, to: str, options: dict[str, Any], **watching: Any) -> Exported:
    if (writer := living_writer(to)) is not None:
        raise FileExistsError(f"{to} is being written by {writer}: wait for it, end it, or give --to another place")
    arguments = sys.argv[1:]
    attrs = {
        "history": provenance.history_line(
            shlex.join(["photonflow", "export", *arguments[arguments[:1] == ["export"] :]])
        ),
        "source": f"a .clust file: {Path(source).absolute()}",
        "versions": provenance.versions(),
    }
    layout = ClustLayout(options["cluster_size"] or (3, 3), options["dtype"] or "int32")
    shape = options["frame_shape"]
    return import_clusters(
        source, to, layout=layout, frame_shape=shape, attrs=attrs, overwrite=options["overwrite"], **watching
    )


if __name__ == "__main__":
    run(command)
