"""The end of a run on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline import RunResult
from pipeline.batches.reports import BatchCount
from roofline import ThroughputSummary
from workflows.facts import opening_line
from workflows.printable import printable
from workflows.run_figures import number, pace, rate
from workflows.stage_table import stage_table, time_table
from workflows.terminal import print_table, stdout_console

# Of so many skipped batches the table says what became of them.
_SKIPPED_SHOWN = 10


def print_result(result: RunResult, again: str) -> None:
    """Print one table of what was done and how fast, and how to open it, on stdout.

    Args:
        result: The run.
        again: The command that tries skipped batches again.
    """
    summary = result.summary
    console = stdout_console()
    if result.was_complete:
        console.print("nothing to resume: the dataset is complete already", markup=False)
        _print_how_to_open(console, result)
        return
    print_table(console, _totals(summary))
    console.print()
    account = summary.account.as_dict()
    print_table(console, stage_table(account))
    console.print()
    console.print(printable(f"advice       {summary.advice}"), markup=False)
    print_table(console, time_table(account))
    if result.skipped:
        console.print()
        _print_skipped(console, result.skipped, again)
    console.print()
    _print_how_to_open(console, result)


def as_json(result: RunResult) -> dict[str, Any]:
    """The same as values for a program."""
    skipped = [
        {
            "batch": count.batch.index,
            "first_frame": count.batch.start,
            "stop_frame": count.batch.stop,
            "status": count.status.name.lower(),
            "cause": count.cause,
        }
        for count in result.skipped
    ]
    return {
        "out": result.out,
        "digest": result.digest,
        "was_complete": result.was_complete,
        "skipped": skipped,
        **result.summary.as_dict(),
    }


def _print_how_to_open(console: Console, result: RunResult) -> None:
    console.print(printable(f"dataset   {result.out}"), markup=False)
    console.print(printable(f"open it   {opening_line(result.out, result.clusters_listed)}"), markup=False)


def _print_skipped(console: Console, skipped: Sequence[BatchCount], again: str) -> None:
    frames = sum(count.batch.n_frames for count in skipped)
    console.print(f"skipped   {frames:,} frames of {_batches(len(skipped))} are not in the dataset:", markup=False)
    for count in skipped[:_SKIPPED_SHOWN]:
        line = f"          {count.batch}: {count.status.name.lower()}: {count.cause}"
        console.print(printable(line), markup=False)
    if len(skipped) > _SKIPPED_SHOWN:
        console.print(f"          and {len(skipped) - _SKIPPED_SHOWN:,} more", markup=False)
    console.print(printable(f"try them  {again}"), markup=False)


def _batches(n: int) -> str:
    return f"{n:,} batch{'es' * (n != 1)}"


def _totals(summary: ThroughputSummary) -> Table:
    totals = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    totals.add_column(style="bold")
    totals.add_column(justify="right")
    totals.add_column(style="dim")
    totals.add_row("frames", f"{summary.frames:,}", f"in {_batches(summary.batches)}")
    if summary.frames_kept:
        totals.add_row("frames kept", f"{summary.frames_kept:,}", "of an earlier run, in the dataset beside these")
    if summary.frames_lost:
        totals.add_row("frames lost", f"{summary.frames_lost:,}", "in skipped batches")
    totals.add_row("clusters", f"{summary.clusters:,}", "")
    totals.add_row("clusters a frame", number(summary.clusters_a_frame, ".1f"), "")
    totals.add_row("seconds", f"{summary.seconds:.2f}", pace(summary.account.as_dict()))
    totals.add_row("frames/s", rate(summary.frames_a_second), "")
    totals.add_row("pedestal off", number(summary.offset, "+z.3f"), "noise widths before a batch, at worst")
    totals.add_row("pixels off", number(summary.pixels_off, ".2%"), "by more than one noise width, at worst")
    if summary.from_darks != summary.offset:
        totals.add_row("darks off", number(summary.from_darks, "+z.3f"), "noise widths, before they were moved")
    totals.add_row("pixels starved", number(summary.seldom_updated, ".2%"), "updated in fewer than half of the frames")
    # Pixels that fire in more than 1 % of the frames are nearly all at ordinary rates: only the odd ones say something.
    totals.add_row("hot pixels", f"{summary.hot:,}", "centres in more than 1 % of the frames, unlike their neighbours")
    totals.add_row("pixels blind", f"{summary.often_blind:,}", "in more than 1 % of a batch's frames")
    if summary.gain_bits:
        totals.add_row("values switched", f"{summary.switched_values:,}", "in another gain, absent from their frame")
    totals.add_row("pedestal moved", number(summary.movement, "+z.3f"), "noise widths within a batch, at most")
    return totals
