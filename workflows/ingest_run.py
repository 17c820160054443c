"""What ``photonflow ingest`` does, its options being read."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from frame_formats import SourceOptions
from frame_formats.stream import pixel_map_of
from pipeline.ingest.beginning import require_place
from pipeline.ingest.plan import IngestPlan
from pipeline.ingest.planning import IngestOptions, needs_workers, plan_ingest
from pipeline.ingest.run import IngestResult, ingest
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.cluster_watch import ClusterWatch, Patience
from pipeline.workers.clusters import open_cluster
from pipeline.workers.versions import require_photonflow
from workflows.byte_progress import ByteProgress, readable
from workflows.command_line import ExitCode, configure_logging
from workflows.exported_files import require_no_export
from workflows.facts import bytes_on_disk
from workflows.interruptions import Interruption, interruptions
from workflows.printable import printable


def ingest_sources(sources: tuple[str, ...], out: str, options: dict[str, Any]) -> None:
    """Make an archive, and say what was done.

    Args:
        sources: What it is made of.
        out: Where it goes.
        options: The command's other options, by name.
    """
    configure_logging(options["verbose"])
    for source in sources:
        require_no_export(source)
    plan, result = _ingest(sources, out, options)
    for sentence in result.ended_early[len(plan.gathered.ended_early) :]:
        click.echo(f"photonflow: warning: {printable(sentence)}", err=True)
    _say(out, plan, result, as_json=options["as_json"])
    if result.ended_early:
        click.get_current_context().exit(ExitCode.SOME_BATCHES_FAILED)


def _ingest(sources: tuple[str, ...], out: str, options: dict[str, Any]) -> tuple[IngestPlan, IngestResult]:
    wanted = _wanted(options)
    config = _cluster_config(options)
    # What is wrong with few files is said before workers are started for nothing.
    plan = None if needs_workers(sources) else plan_ingest(sources, wanted)
    goes_on = {name: options[name] for name in ("resume", "overwrite")}
    require_place(out, plan, **goes_on)
    if plan is not None and config.kind == "local-cpu":
        # A worker takes seconds to start: no more of them than there is work for.
        config = replace(config, workers=min(config.n_workers, plan.n_workers), adaptive=None)
    interruptions.left = "nothing was written"
    try:
        with ByteProgress(plan.nbytes if plan else 0, enabled=options["progress"]) as progress, ExitStack() as started:
            progress.step(
                f"starting {config.n_workers} worker{'s' * (config.n_workers > 1)}"
                if config.kind != "existing"
                else "connecting"
            )
            # Jobs and machines elsewhere have to be told that they are no longer wanted.
            with interruptions.leaving_at_once() if config.is_local else nullcontext():
                client = started.enter_context(open_cluster(config))
            if not config.is_local:
                patience = Patience(worker_seconds=config.seconds_for_workers)
                require_photonflow(client, ClusterWatch(client, patience=patience))
            if plan is None:
                plan = plan_ingest(sources, wanted, client, progress.step)
                progress.of(plan.nbytes)
            interruptions.left = f"what is at {out} is unfinished; go on with --resume"
            result = ingest(
                plan,
                out,
                client,
                verify=options["verify"],
                **goes_on,
                command=shlex.join(["photonflow", "ingest", *_arguments()]),
                on_step=progress.step,
                on_progress=progress.update,
            )
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, interruptions.left) from None
    return plan, result


def _cluster_config(options: dict[str, Any]) -> ClusterConfig:
    if options["scheduler"] is not None:
        return ClusterConfig(kind="existing", scheduler=options["scheduler"])
    if options["cluster"] is not None:
        return ClusterConfig.from_yaml(options["cluster"])
    return ClusterConfig(workers=options["cpus"])


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
            "cpu_seconds": result.cpu_seconds,
            "chunks_verified": result.n_verified,
            "frames_found": result.n_found,
            "problems": list(plan.gathered.problems),
            "ended_early": list(result.ended_early),
        }
        click.echo(json.dumps(said, indent=2))
        return
    rows, columns = plan.shape[1:]
    is_program = Path(sys.argv[0]).stem == "photonflow"
    process = "photonflow process" if is_program else "python -m workflows.process"
    pedestal = "" if result.n_dark else " --pedestal PATH (there are no darks in it)"
    found = f", {result.n_found:,} of them found" if result.n_found else ""
    click.echo(
        f"wrote {printable(out)}: {result.n_frames:,} frames and {result.n_dark:,} darks of {rows}×{columns} "
        f"{plan.dtype}{found}; {readable(result.nbytes)}, {readable(on_disk)} on disk; "
        f"{result.n_verified:,} chunks read back and compared\n"
        f"find its photons with: {process} {printable(shlex.quote(out))}{pedestal}"
    )


def _arguments() -> list[str]:
    """The command's own arguments, without the program's and the command's names."""
    arguments = sys.argv[1:]
    return arguments[1:] if arguments[:1] == ["ingest"] else arguments
