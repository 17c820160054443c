"""What ``photonflow process`` does, its options being read."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import click

from finder import FinderParameters
from finder.products import ProductOptions
from pipeline import ClusterConfig, PreparedRun, RunOptions, RunProgress, RunResult, execute, open_cluster, prepare
from pipeline.checks.sizing import fit_to_memory
from pipeline.errors import RunStoppedError
from pipeline.resuming.advice import resuming, what_is_left
from pipeline.watching.run_reporter import link_of_page
from pipeline.workers.cluster_watch import ClusterWatch, Patience
from pipeline.workers.device_choice import DeviceChoice, choose_device
from workflows.command_line import ExitCode, configure_logging
from workflows.dry_run import dry_run
from workflows.exported_files import require_no_export
from workflows.interruptions import Interruption, interruptions
from workflows.progress import RunProgress as ProgressLine
from workflows.run_table import as_json, print_result
from workflows.watching import Watching


def process_archive(archive: str, cluster_size: tuple[int, int], options: dict[str, Any], began: float) -> None:
    """Find the photon clusters of an archive, and print what was done.

    Args:
        archive: Its path.
        cluster_size: Rows and columns of the window.
        options: The command's other options, by name.
        began: When the command began, by `time.perf_counter`.
    """
    configure_logging(options["verbose"])
    require_no_export(archive)
    choice = _device_choice(options)
    config = choice.config
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
            **{name: options[name] for name in ("dark_clip", "gain_bits", "mask", "signal_dtype", "overwrite")},
            **{
                name: options[name]
                for name in ("tracking", "warmup", "recentre", "on_bad_batch", "resume", "verify", "clusters")
            },
            backend=choice.backend,
            products=ProductOptions(options["products"], options["spectrum_bins"], options["eta_bins"]),
            frames=options["frames"],
        )
    )
    if options["only_plan"]:
        dry_run(prepared, config, as_json=options["as_json"])
        return
    timeout = options["cluster_timeout"]
    patience = (
        Patience(batch_seconds=options["batch_timeout"], worker_seconds=config.seconds_for_workers)
        if timeout is None
        else Patience(timeout, options["batch_timeout"])
    )
    with Watching.asked(options) as watching:
        result = _run(prepared, choice, patience, began, watching)
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


def _device_choice(options: dict[str, Any]) -> DeviceChoice:
    given = [f"--{name}" for name in ("gpus", "cpus", "scheduler", "cluster") if options[name] is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other: give one of them")
    asked: ClusterConfig | None = None
    if options["scheduler"] is not None:
        asked = ClusterConfig(kind="existing", scheduler=options["scheduler"])
    elif options["cluster"] is not None:
        asked = ClusterConfig.from_yaml(options["cluster"])
    elif options["cpus"] is not None:
        asked = ClusterConfig(workers=options["cpus"])
    choice = choose_device(asked, gpus=options["gpus"])
    return replace(choice, config=_with_options(choice.config, options))


def _with_options(config: ClusterConfig, options: dict[str, Any]) -> ClusterConfig:
    if options["streams"] is not None:
        if config.kind != "local-gpu":
            raise click.UsageError("--streams is for GPUs of this machine, and this run uses none")
        config = replace(config, threads=options["streams"])
    certificates = {name: options[name] for name in ("tls_ca_file", "tls_cert", "tls_key") if options[name] is not None}
    if options["tls"] or certificates:
        config = replace(config, tls=True, **certificates)
    if options["dashboard_address"] is None:
        return config
    if config.kind == "existing":
        raise click.UsageError("--dashboard-address is for workers started here; a running scheduler has its own")
    return replace(config, dashboard_address=options["dashboard_address"])


def _run(
    prepared: PreparedRun, choice: DeviceChoice, patience: Patience, began: float, watching: Watching
) -> RunResult:
    sized = fit_to_memory(prepared, choice.config)
    config = sized.config
    interruptions.left = "nothing was written"
    try:
        with (
            watching.progress(prepared.plan.n_frames) as progress,
            interruptions.held(lambda: progress.step("stopping (Ctrl-C again ends at once)")) as should_stop,
            ExitStack() as started,
        ):
            if sized.notice is not None:
                progress.note(f"photonflow: {sized.notice}")
            workers = f"{config.n_workers} worker{'s' * (config.n_workers != 1)}"
            progress.step(f"starting {workers} {choice.reason}".rstrip() if config.kind != "existing" else "connecting")
            # Jobs and machines elsewhere have to be told that they are no longer wanted.
            with interruptions.leaving_at_once() if config.is_local else nullcontext():
                client = started.enter_context(open_cluster(config))
            interruptions.left = (
                f"what is at {prepared.out} may be unfinished; go on with: {resuming(prepared.options.command)}"
            )
            if config.dashboard_address is not None:
                progress.note(f"dashboard: {client.dashboard_link}")
            page = link_of_page(client, ClusterWatch(client, patience=patience, should_stop=should_stop))
            if page is not None:
                progress.note(f"its runs: {page}")
            started.enter_context(watching.reported(client, prepared.options.command, progress))
            result = execute(
                prepared,
                client,
                on_step=progress.step,
                on_progress=lambda done: _show(done, progress),
                began=began,
                patience=patience,
                should_stop=should_stop,
                on_notice=watching.notice(progress),
                on_event=watching.log,
            )
            _show_end(result, prepared.plan.n_frames, progress)
            return result
    except RunStoppedError:
        assert interruptions.received is not None
        raise Interruption(interruptions.received, what_is_left(prepared)) from None
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, what_is_left(prepared)) from None


def _show(done: RunProgress, progress: ProgressLine) -> None:
    if done.frames == done.frames_total:
        progress.all_found()
        return
    clusters = done.clusters - done.clusters_before
    progress.update(done.frames, clusters, done.offset, done.tallest, frames_before=done.frames_before)


def _show_end(result: RunResult, frames: int, progress: ProgressLine) -> None:
    """The last line has the rates of the table that follows it: of the run until all was written."""
    if result.was_complete:
        return
    summary, account = result.summary, result.summary.account
    progress.update(
        frames,
        summary.clusters,
        tallest=account.tallest,
        frames_before=frames - account.frames,
        seconds=account.seconds,
    )


def _arguments() -> list[str]:
    """The command's own arguments, without the program's and the command's names."""
    arguments = sys.argv[1:]
    return arguments[1:] if arguments[:1] == ["process"] else arguments
