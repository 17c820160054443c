"""``photonflow process``: find the photon clusters of a frame archive."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from finder import FinderParameters
from finder.products import ProductOptions
from pipeline import ClusterConfig, PreparedRun, RunOptions, RunResult, execute, open_cluster, prepare
from pipeline.checks.sizing import fit_to_memory
from pipeline.errors import RunStoppedError
from pipeline.processing import no_gpus
from pipeline.resuming.advice import resuming, what_is_left
from pipeline.workers.cluster_watch import Patience
from workflows.command_line import ExitCode, configure_logging, run
from workflows.dry_run import dry_run
from workflows.interruptions import Interruption, interruptions
from workflows.option_values import common_mode, frame_range, product_names, size, spectrum_bins
from workflows.progress import RunProgress
from workflows.run_table import as_json, print_result


@click.command(name="process")
@click.argument("archive", type=click.Path())
@click.option("--out", type=click.Path(), help="The dataset to write; by default x.clusters.zarr beside x.zarr.")
@click.option("--gpus", type=int, metavar="N", help="Use N GPUs.  (not yet)")
@click.option("--cpus", type=click.IntRange(min=1), metavar="N", help="Use N worker processes; by default one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask scheduler.")
@click.option("--cluster", metavar="FILE.yaml", help="Use the workers that a YAML file describes (cluster_configs/).")
@click.option(
    "--cluster-timeout",
    type=float,
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a scheduler that does not answer, or for workers when there are none.",
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
@click.option("--dashboard-address", metavar="HOST:PORT", help="Serve Dask's dashboard there.")
@click.option("--tls", is_flag=True, help="Encrypt between client, scheduler and workers, with temporary certificates.")
@click.option("--tls-ca-file", metavar="PEM", help="The authority whose certificates are accepted.")
@click.option("--tls-cert", metavar="PEM", help="Our certificate.")
@click.option("--tls-key", metavar="PEM", help="Its key.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(archive: str, cluster_size: tuple[int, int], **options: Any) -> None:
    """Find the photon clusters of the frames in ARCHIVE and write them as one xarray dataset."""
    began = time.perf_counter()
    configure_logging(options["verbose"])
    config = _cluster_config(options)
    prepared = prepare(
        RunOptions(
            archive=archive,
            parameters=FinderParameters(
                n_sigma=options["n_sigma"],
                cluster_size=cluster_size,
                n_samples=options["n_samples"],
                noise=options["noise"],
                common_mode=options["common_mode"],
            ),
            command=shlex.join(["photonflow", "process", *_arguments()]),
            **{name: options[name] for name in ("out", "batch_size", "frames_path", "missing_chunks", "pedestal")},
            **{name: options[name] for name in ("mask", "signal_dtype", "overwrite")},
            **{
                name: options[name]
                for name in ("tracking", "warmup", "recentre", "on_bad_batch", "resume", "verify", "clusters")
            },
            products=ProductOptions(options["products"], options["spectrum_bins"], options["eta_bins"]),
            frames=options["frames"],
        )
    )
    if options["only_plan"]:
        dry_run(prepared, config, as_json=options["as_json"])
        return
    patience = Patience(options["cluster_timeout"], options["batch_timeout"])
    result = _run(prepared, config, patience, began, show_progress=options["progress"])
    try:
        if options["as_json"]:
            click.echo(json.dumps(as_json(result), indent=2))
        else:
            print_result(result, again=resuming(prepared.options.command))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(
            f"the dataset at {result.out} is complete, but its summary can't be written to stdout: {error.strerror}"
        ) from error
    if result.skipped:
        click.get_current_context().exit(ExitCode.SOME_BATCHES_FAILED)


def _cluster_config(options: dict[str, Any]) -> ClusterConfig:
    given = [f"--{name}" for name in ("gpus", "cpus", "scheduler", "cluster") if options[name] is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other: give one of them")
    if options["gpus"] is not None:
        raise ValueError(no_gpus(options["gpus"]))
    if options["scheduler"] is not None:
        config = ClusterConfig(kind="existing", scheduler=options["scheduler"])
    elif options["cluster"] is not None:
        config = ClusterConfig.from_yaml(options["cluster"])
    else:
        config = ClusterConfig(workers=options["cpus"])
    certificates = {name: options[name] for name in ("tls_ca_file", "tls_cert", "tls_key") if options[name] is not None}
    if options["tls"] or certificates:
        config = replace(config, tls=True, **certificates)
    if options["dashboard_address"] is None:
        return config
    if config.kind == "existing":
        raise click.UsageError("--dashboard-address is for workers started here; a running scheduler has its own")
    return replace(config, dashboard_address=options["dashboard_address"])


def _run(
    prepared: PreparedRun, config: ClusterConfig, patience: Patience, began: float, show_progress: bool
) -> RunResult:
    sized = fit_to_memory(prepared, config)
    config = sized.config
    interruptions.left = "nothing was written"
    try:
        with (
            RunProgress(prepared.plan.n_frames, enabled=show_progress) as progress,
            interruptions.held(lambda: progress.step("stopping (Ctrl-C again ends at once)")) as should_stop,
            ExitStack() as started,
        ):
            if sized.notice is not None:
                progress.note(f"photonflow: {sized.notice}")
            progress.step(
                f"starting {config.n_workers} worker{'s' * (config.n_workers != 1)}"
                if config.kind == "local-cpu"
                else "connecting"
            )
            with interruptions.leaving_at_once():
                client = started.enter_context(open_cluster(config))
            interruptions.left = (
                f"what is at {prepared.out} may be unfinished; go on with: {resuming(prepared.options.command)}"
            )
            if config.dashboard_address is not None:
                progress.note(f"dashboard: {client.dashboard_link}")
            return execute(
                prepared,
                client,
                on_step=progress.step,
                on_progress=lambda done: progress.update(done.frames, done.clusters, done.offset),
                began=began,
                patience=patience,
                should_stop=should_stop,
                on_notice=lambda notice: progress.note(f"photonflow: {notice}"),
            )
    except RunStoppedError:
        assert interruptions.received is not None
        raise Interruption(interruptions.received, what_is_left(prepared)) from None
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, what_is_left(prepared)) from None


def _arguments() -> list[str]:
    """The command's own arguments, without the program's and the command's names."""
    arguments = sys.argv[1:]
    return arguments[1:] if arguments[:1] == ["process"] else arguments


if __name__ == "__main__":
    run(command)
