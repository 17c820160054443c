"""``process --dry-run``: what a run would read, write and need."""

from __future__ import annotations

import dataclasses
import json
import warnings

import click

from pipeline import ClusterConfig, PreparedRun, WrongDarksWarning
from pipeline.checks.forecast import forecast
from pipeline.checks.sizing import fit_to_memory, pinned_bytes_a_worker
from pipeline.errors import NotEnoughMemoryError
from pipeline.workers.described import describe
from pipeline.workers.memory import memory_there_is
from workflows.facts import human_bytes
from workflows.terminal import facts_table, print_table, stdout_console


def dry_run(prepared: PreparedRun, config: ClusterConfig, *, as_json: bool) -> None:
    """Print what a run would do, on stdout; nothing is written and no worker is started."""
    expected = forecast(prepared)
    for problem in expected.dark_problems:
        warnings.warn(problem, WrongDarksWarning, stacklevel=2)
    there_is = memory_there_is()
    fit = _what_fits(prepared, config)
    pinned = pinned_bytes_a_worker(prepared, config)
    if as_json:
        facts = {
            "archive": prepared.archive.address.path,
            "out": prepared.out,
            "first_frame": prepared.plan.first_frame,
            "frames": prepared.plan.n_frames,
            "batches": len(prepared.plan),
            "pedestal": str(prepared.pedestal),
            "cluster": describe(config),
            "fits": fit,
            "pinned_bytes": pinned,
            "memory_available": there_is.available,
            "memory_total": there_is.total,
            **dataclasses.asdict(expected),
        }
        click.echo(json.dumps(facts, indent=2))
        return
    plan, layout = prepared.plan, prepared.layout
    window = "x".join(map(str, layout.cluster_size))
    clusters = expected.clusters_a_frame * plan.n_frames
    rows = [
        ("archive", prepared.archive.address.path),
        ("frames", f"{plan.first_frame}:{plan.stop_frame} ({plan.n_frames:,})"),
        ("batches", f"{len(plan):,} of {plan.batch_size:,} frames"),
        ("pedestal", str(prepared.pedestal)),
        ("workers", ", ".join(f"{key} {value}" for key, value in describe(config).items())),
        ("to read", f"{human_bytes(expected.read_bytes)}, decoded {human_bytes(expected.decoded_bytes)}"),
        ("clusters a frame", f"about {expected.clusters_a_frame:,.1f}, as in the first {expected.frames_tried} frames"),
        ("false ones", f"about {_number(expected.false_clusters_a_frame)} a frame, if the noise is Gaussian"),
        ("would write", prepared.out),
        (
            "in it",
            f"signal ({window}, {layout.signal_dtype}), x, y and frame_index of about {clusters:,.0f} clusters: "
            f"{human_bytes(expected.write_bytes)} before encoding"
            if layout.cluster_list
            else f"no list of about {clusters:,.0f} clusters",
        ),
        *((("counted", products),) if (products := prepared.options.products.in_words()) else ()),
        ("memory a worker", f"up to about {human_bytes(expected.worker_bytes)}"),
        *((("page-locked", f"{human_bytes(pinned)} more a worker, for its GPU"),) if pinned else ()),
        (
            "memory there is",
            f"{human_bytes(there_is.available)} of {human_bytes(there_is.total)}, {there_is.limited_by}",
        ),
        ("fits", fit),
    ]
    print_table(stdout_console(), facts_table(rows))


def _number(value: float) -> str:
    """Three figures, however small."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def _what_fits(prepared: PreparedRun, config: ClusterConfig) -> str:
    if not config.is_local:
        return "the workers are asked when the run begins"
    try:
        sized = fit_to_memory(prepared, config)
    except NotEnoughMemoryError as error:
        return f"no: {error}"
    return sized.notice or f"{sized.config.n_workers} worker{'s' * (sized.config.n_workers != 1)}, as asked"
