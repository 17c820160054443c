"""``photonflow process``: find the photon clusters of a frame archive; its options."""

from __future__ import annotations

import time
from typing import Any

import click

from workflows.command_line import run
from workflows.interruptions import interruptions
from workflows.option_values import common_mode, frame_range, product_names, size, spectrum_bins


@click.command(name="process")
@click.argument("archive", type=click.Path())
@click.option("--out", type=click.Path(), help="The dataset to write; by default x.clusters.zarr beside x.zarr.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="Use N GPUs.  [default: all, else the CPU]")
@click.option(
    "--streams",
    type=click.IntRange(min=1),
    metavar="N",
    help="Batches at work at once on each GPU.  [default: 3]",
)
@click.option("--cpus", type=click.IntRange(min=1), metavar="N", help="Use N worker processes; by default one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask scheduler.")
@click.option("--cluster", metavar="FILE.yaml", help="The workers of a YAML file, or of cluster_configs/ by name.")
@click.option(
    "--cluster-timeout",
    type=float,
    metavar="SECONDS",
    help="How long to wait for a scheduler that does not answer, or for workers when there are none.  [default: 120, "
    "or the cluster's wait_for_workers]",
)
@click.option(
    "--batch-timeout",
    type=float,
    metavar="SECONDS",
    help="A worker that has a batch for longer is ended and the batch done elsewhere.  [default: 300 and 20 times the "
    "median batch]",
)
@click.option("--batch-size", type=int, default=2000, show_default=True, help="Frames of a batch.")
@click.option("--n-sigma", type=float, default=5.0, show_default=True, help="Threshold in noise widths.")
@click.option(
    "--cluster-size",
    callback=size,
    default="3x3",
    metavar="ROWSxCOLUMNS",
    show_default=True,
    help="The window around a photon.",
)
@click.option("--n-samples", type=int, default=1000, show_default=True, help="Memory of the pedestal, in frames.")
@click.option(
    "--noise",
    type=click.Choice(["running", "trained"]),
    default="running",
    show_default=True,
    help="Follow each pixel's noise, or keep that of the darks.",
)
@click.option(
    "--tracking",
    type=click.Choice(["batch", "chain", "off"]),
    default="batch",
    show_default=True,
    help="Start each batch from the trained pedestal, or where the last one ended; off keeps that of the darks.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="W",
    help="Let the W frames before each batch move its pedestal first.",
)
@click.option(
    "--recentre",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="K",
    help="Move the pedestal to the first K frames of each batch before it begins.",
)
@click.option(
    "--common-mode",
    callback=common_mode,
    default="off",
    show_default=True,
    metavar="row|column|tile:RxC|off",
    help="Subtract what the pixels of a row, a column or a tile of R rows and C columns have in common.",
)
@click.option(
    "--pedestal",
    metavar="PATH|first:N",
    help="An archive with darks, an earlier output, an NPZ or Zarr with mean and noise; first:N takes the archive's "
    "first N frames as darks and leaves them out.  [default: the archive's darks]",
)
@click.option(
    "--dark-clip",
    type=float,
    metavar="WIDTHS",
    help="Leave out values of the darks that lie so many noise widths from their pixel's mean: photons, steps.  "
    "[default: off]",
)
@click.option(
    "--gain-bits",
    type=click.IntRange(min=0, max=8),
    metavar="N",
    help="Bits above the value in the detector's 16-bit words; a pixel in another gain than 0 is absent from its frame."
    "  [default: what the archive says; 2 for a Jungfrau]",
)
@click.option("--mask", metavar="PATH", help="Pixels to leave out (NPY, NPZ or Zarr), beside the archive's own mask.")
@click.option(
    "--frames", callback=frame_range, metavar="A:B", help="Only the frames from A to before B.  [default: all]"
)
@click.option("--frames-path", metavar="NAME", help="The array of frames inside the archive, where it isn't obvious.")
@click.option(
    "--missing-chunks",
    type=click.Choice(["error", "fill"]),
    default="error",
    show_default=True,
    help="What chunks that are not there mean: damage, or the fill value.",
)
@click.option(
    "--signal-dtype",
    type=click.Choice(["int32", "float32"]),
    default="int32",
    show_default=True,
    help="Type of signal.",
)
@click.option(
    "--products",
    callback=product_names,
    default="",
    metavar="NAMES",
    help="Count spectrum, hitmap, eta (any of them, with commas between) while clusters are found.",
)
@click.option(
    "--spectrum-bins",
    callback=spectrum_bins,
    default="0:16384:1",
    metavar="LOW:HIGH:WIDTH",
    show_default=True,
    help="Bins of --products spectrum, whole ADU.",
)
@click.option("--eta-bins", type=int, default=150, show_default=True, help="Bins of --products eta along each axis.")
@click.option("--clusters/--no-clusters", default=True, help="List the clusters, or only count them.  [default: list]")
@click.option("--resume", is_flag=True, help="Go on with what an earlier run of the same command left.")
@click.option(
    "--verify",
    is_flag=True,
    help="Note a digest of each batch's frames; with --resume, read finished batches again and compare.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output of photonflow's.")
@click.option(
    "--on-bad-batch",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="Stop at the first batch that fails, or mark its frames and go on.",
)
@click.option("--dry-run", "only_plan", is_flag=True, help="Say what would be done and what it would take.")
@click.option("--progress/--no-progress", default=True, help="Show how far the run is.  [default: progress]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout, all else on stderr.")
@click.option(
    "--dashboard-address", metavar="HOST:PORT", help="Serve Dask's dashboard there, with a page of this run's own."
)
@click.option(
    "--performance-report", metavar="FILE.html", help="Have Dask write there what scheduler and workers did when."
)
@click.option(
    "--log-json",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Log each batch, step and failure as a line of JSON, to the end of FILE, or to stderr in place of progress.",
)
@click.option("--tls", is_flag=True, help="Encrypt between client, scheduler and workers, with temporary certificates.")
@click.option("--tls-ca-file", metavar="PEM", help="The authority whose certificates are accepted.")
@click.option("--tls-cert", metavar="PEM", help="Our certificate.")
@click.option("--tls-key", metavar="PEM", help="Its key.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(archive: str, cluster_size: tuple[int, int], **options: Any) -> None:
    """Find the photon clusters of the frames in ARCHIVE and write them as one xarray dataset."""
    began = time.perf_counter()
    with interruptions.leaving_at_once():
        # Late, for it takes most of a second, and this module is imported for ``--help``, for options that are wrong,
        # and by every worker too.
        from workflows.process_run import process_archive
    process_archive(archive, cluster_size, options, began)


if __name__ == "__main__":
    run(command)
