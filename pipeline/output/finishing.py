"""The end of a run: the dataset's tables and last attributes, and what is said of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from cluster_store import FrameStatus, finish_dataset, read_attributes, write_table
from pipeline.batches.count_table import column
from pipeline.batches.reports import BatchCount
from pipeline.batches.run_record import RunRecord
from pipeline.ceilings.of_stages import RunCeilings
from pipeline.output.products import products_table
from pipeline.output.run_history import ended
from pipeline.output.summary import (
    RunTimes,
    Workers,
    account_of,
    nothing_done,
    require_all_read,
    summarised,
    throughput_attribute,
)
from pipeline.output.tables import Writing, bytes_written, write_tables
from pipeline.preparation import PreparedRun
from pipeline.resuming.beginning import Beginning
from pipeline.resuming.journal import remove_journal
from roofline import ThroughputSummary


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        out: Absolute path of the dataset.
        summary: What was done, in how long.
        digest: Digest of all clusters; the same for the same archive, pedestal and parameters.
        skipped: The batches that are not in it, with what became of them and why.
        was_complete: The dataset was complete already, and nothing had to be done.
        clusters_listed: The dataset has a list of the clusters, and not only what was counted of them.
    """

    out: str
    summary: ThroughputSummary
    digest: str
    skipped: tuple[BatchCount, ...] = ()
    was_complete: bool = False
    clusters_listed: bool = True


@dataclass(frozen=True)
class Against:
    """What the stages of a run are held against.

    Args:
        ceilings: What they could have done.
        workers: The workers that there were.
        times: When the run came to what.
    """

    ceilings: RunCeilings
    workers: Workers
    times: RunTimes


def finish_run(
    prepared: PreparedRun, run_id: str, beginning: Beginning, record: RunRecord, against: Against
) -> RunResult:
    """Write the tables and the last attributes, and mark the dataset complete.

    Raises:
        RunError: What was read or written is not what there is of the archive or of the clusters.
    """
    options, layout, out = prepared.options, prepared.layout, prepared.out
    gain_bits = options.parameters.gain_bits
    counts = record.known()
    found = counts.at(beginning.left.to_find)
    require_all_read(prepared, found, record.totals)
    digest = _digest(counts)
    nbytes, stored_bytes = bytes_written(out, layout, column(counts, "n_clusters").tolist())
    written = Writing(record.write_seconds, record.write_ended, nbytes, stored_bytes, record.write_faults)
    names = [str(worker["name"]) for worker in against.workers.values()]
    write_tables(out, counts, written, layout.frame_shape, run_id=run_id, workers=names)
    if options.products.names:
        write_table(out, "products", products_table(beginning.totals.products, options.products), run_id=run_id)
    account = account_of(found, record.totals, against.ceilings, against.workers, against.times)
    done = {"batches": len(found), "frames": account.frames, "clusters": account.clusters}
    result: dict[str, Any] = {"digest": digest} | ended(read_attributes(out), run_id, "complete", done=done)
    if gain_bits:
        result["switched_values"] = int(column(counts, "switched_values").sum())

    def at_last() -> dict[str, Any]:
        # What the dataset keeps is what the summary says: one account, made when all but this was done.
        nonlocal account
        account = account_of(found, record.totals, against.ceilings, against.workers, against.times)
        return {"throughput": throughput_attribute(account, against.ceilings, against.times)}

    finish_dataset(out, layout, record.n_clusters, result, run_id=run_id, at_last=at_last)
    missing = tuple(counts.at(np.flatnonzero(column(counts, "status") != FrameStatus.OK)))
    if not missing:
        remove_journal(out)
    summary = summarised(counts, found, beginning.left, account, against.times, gain_bits)
    return RunResult(out, summary, digest, missing, clusters_listed=layout.cluster_list)


def already_complete(prepared: PreparedRun, workers: int, startup_seconds: float) -> RunResult:
    """The result of a run for which nothing was left to do."""
    remove_journal(prepared.out)  # a run that ended between its last two steps leaves it
    nothing = nothing_done(prepared, workers, startup_seconds)
    digest = read_attributes(prepared.out).get("digest")
    listed = prepared.layout.cluster_list
    return RunResult(prepared.out, nothing, str(digest), was_complete=True, clusters_listed=listed)


def _digest(counts: Sequence[BatchCount]) -> str:
    whole = xxhash.xxh3_128()
    for digest in column(counts, "digest"):
        whole.update(digest.encode())
    return f"xxh3-128:{whole.hexdigest()}"
