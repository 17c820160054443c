"""``process --dry-run``: what a run would read, write and need."""

from __future__ import annotations

import dataclasses
import json

import click
from dask.system import CPU_COUNT
from dask.utils import format_bytes
from distributed.system import MEMORY_LIMIT
from rich.console import Console
from rich.table import Table

from pipeline import ClusterConfig, PreparedRun
from pipeline.clusters import describe
from pipeline.forecast import forecast


def dry_run(prepared: PreparedRun, config: ClusterConfig, *, as_json: bool) -> None:
    """Print what a run would do, on stdout; nothing is written and no worker is started."""
    expected = forecast(prepared)
    if as_json:
        facts = {
            "archive": prepared.archive.address.path,
            "out": prepared.out,
            "first_frame": prepared.plan.first_frame,
            "frames": prepared.plan.n_frames,
            "batches": len(prepared.plan),
            "pedestal": str(prepared.pedestal),
            "cluster": describe(config),
            **dataclasses.asdict(expected),
        }
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    plan, layout = prepared.plan, prepared.layout
    rows, columns = layout.cluster_size
    table.add_row("archive", prepared.archive.address.path)
    table.add_row("frames", f"{plan.first_frame}:{plan.stop_frame} ({plan.n_frames:,})")
    table.add_row("batches", f"{len(plan):,} of {plan.batch_size:,} frames")
    table.add_row("pedestal", str(prepared.pedestal))
    table.add_row("workers", ", ".join(f"{key} {value}" for key, value in describe(config).items()))
    table.add_row("to read", f"{format_bytes(expected.read_bytes)}, decoded {format_bytes(expected.decoded_bytes)}")
    table.add_row(
        "clusters a frame", f"about {expected.clusters_a_frame:,.1f}, as in the first {expected.frames_tried} frames"
    )
    table.add_row(
        "would write",
        f"{prepared.out}: signal ({rows}x{columns}, {layout.signal_dtype}), x, y, frame_index of about "
        f"{expected.clusters_a_frame * plan.n_frames:,.0f} clusters, {format_bytes(expected.write_bytes)} before "
        "encoding",
    )
    table.add_row("memory a worker", f"up to about {format_bytes(expected.worker_bytes)}{_share(config)}")
    Console(highlight=False, soft_wrap=True).print(table)


def _share(config: ClusterConfig) -> str:
    if config.kind != "local-cpu":
        return ""
    share = format_bytes(MEMORY_LIMIT // config.n_workers)
    return f", of {share} for each of {config.n_workers} on this machine ({CPU_COUNT} cores)"
