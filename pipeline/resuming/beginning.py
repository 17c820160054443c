"""How a run begins: on an empty dataset, or where an earlier one was broken off."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from distributed import Client, as_completed

from cluster_store import (
    DatasetError,
    FrameStatus,
    create_dataset,
    dataset_status,
    open_dataset,
    read_attributes,
    read_table,
    remove_rows,
    reopen_dataset,
    stored_chunks,
    write_pedestal,
)
from finder import Pedestal
from pipeline.batches.chain_states import ChainStates, chain_start
from pipeline.batches.reports import BatchCount
from pipeline.batches.worker import find_again, report_of
from pipeline.errors import ResumeError, RunStoppedError
from pipeline.output.products import ProductTotals
from pipeline.output.side_places import side_folder
from pipeline.output.tables import stamp_number
from pipeline.preparation import PreparedRun
from pipeline.resuming.journal import RunHeader, RunJournal, journal_place, read_counts, read_header
from pipeline.resuming.made_from import differences
from pipeline.resuming.remaining import Remaining, remaining, skipped, with_chain_starts, with_products
from pipeline.resuming.verification import FrameComparison
from pipeline.workers.cluster_watch import ClusterWatch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """Where a run begins.

    Args:
        journal: Its journal.
        left: What is to be done.
        totals: What was counted of the batches of an earlier run; at first nothing.
        expected: What the journal says of batches that have to be found again although later rows are there already.
        skipped: Batches that an earlier run skipped, and that may be tried again.
        is_complete: There is nothing to be done: the dataset is complete, with all its chunks.
    """

    journal: RunJournal
    left: Remaining
    totals: ProductTotals
    expected: Mapping[int, BatchCount] = field(default_factory=dict)
    skipped: tuple[BatchCount, ...] = ()
    is_complete: bool = False


def run_of_dataset(out: str) -> str | None:
    """The ``run_id`` of the dataset at ``out``; None where there is none."""
    if dataset_status(out) not in ("running", "complete"):
        return None
    return str(read_attributes(out).get("run_id", ""))


def begin_anew(
    prepared: PreparedRun, attributes: Mapping[str, Any], made: Mapping[str, Any], pedestal: Pedestal, run_id: str
) -> Beginning:
    """Make the journal and an empty dataset.

    Raises:
        DatasetError: There is one that may not be overwritten.
        OutputError: They can't be written.
    """
    replaces = run_of_dataset(prepared.out)
    overwrite = prepared.options.overwrite or (replaces is not None and _may_replace(prepared.out, replaces))
    if replaces is not None and not overwrite:
        raise FileExistsError(f"{prepared.out} exists: give --overwrite to replace it, or --out another place")
    # The journal first: whatever happens from here on, there is something that --resume can go on from.
    journal = RunJournal.begin(prepared.out, RunHeader((run_id,), made, replaces))
    create_dataset(prepared.out, prepared.layout, attributes, overwrite=overwrite, run_id=run_id)
    write_pedestal(prepared.out, pedestal, run_id=run_id)
    ChainStates(journal.folder).keep_only(())
    journal.mark_created()
    return Beginning(journal, Remaining({}, range(len(prepared.plan)), 0), _totals(prepared, journal.header))


def begin_again(
    prepared: PreparedRun,
    attributes: Mapping[str, Any],
    made: Mapping[str, Any],
    run_id: str,
    compare: FrameComparison | None = None,
) -> Beginning | None:
    """Take over what an earlier run left; None if there is nothing of one, and the run has to begin anew.

    Args:
        prepared: The run.
        attributes: Of the dataset.
        made: See :func:`pipeline.resuming.made_from.made_from`.
        run_id: The run that goes on.
        compare: Compares the frames themselves; None goes by the sizes and times of their files.

    Raises:
        ResumeError: It can't be gone on with; the message says why.
    """
    out, plan = prepared.out, prepared.plan
    of_dataset, header = run_of_dataset(out), read_header(out)
    if of_dataset is None:
        return None
    if header is None or of_dataset not in (*header.run_ids, header.replaces):
        header = _header_of_complete(out)
        if header is None:
            raise ResumeError(
                f"{out} has no journal beside it ({journal_place(out)}), so it can't be gone on with: give "
                "--overwrite to begin anew, or --out another place"
            )
        counts: dict[int, BatchCount] = {}
    else:
        counts = read_counts(out, plan)
    require_same(out, header.made_from, made)
    if not header.created or of_dataset == header.replaces:
        return None
    if compare is None:
        require_same_archive(prepared, counts)
    else:
        compare(counts)
    totals = _totals(prepared, header)
    totals.load(_found(counts))
    left, expected = _left(prepared, counts, totals)
    if not skipped(left.kept) and _is_whole(prepared):
        return Beginning(RunJournal(out, header), left, totals, is_complete=True)
    logger.info("%s: %d of %d batches are to be found", out, len(left.to_find), len(plan))
    # The journal knows of both runs before the dataset is the new one's.
    header = replace(header, run_ids=(*header.run_ids, run_id))
    journal = RunJournal.begin(out, header, [*left.kept.values(), *expected.values()])
    reopen_dataset(out, prepared.layout, attributes, run_id=run_id)
    # What holds rows that the journal doesn't know of says nothing, and must not be taken for done later.
    remove_rows(out, left.n_chunks, run_id=run_id)
    return Beginning(journal, left, totals, expected, tuple(skipped(left.kept)))


def begin_where_skipped(
    prepared: PreparedRun, beginning: Beginning, client: Client, watch: ClusterWatch, run_id: str
) -> Beginning:
    """Try the skipped batches again; from the first that succeeds on, everything is to be found anew, for rows move."""
    first = _first_that_succeeds(prepared, beginning, client, watch, run_id)
    if first is None:
        return beginning
    counts = {k: count for k, count in {**beginning.left.kept, **beginning.expected}.items() if k < first}
    totals = beginning.totals
    if not totals.batches <= _found(counts):
        # What comes after the batch may come to something else, and nothing can be taken out of a sum.
        totals.clear()
        totals.save()
    n_rows = sum(count.n_clusters for count in counts.values())
    # The rows first: if the run ends here, the journal still says that the batch was skipped.
    remove_rows(prepared.out, n_rows // prepared.layout.rows_per_chunk, run_id=run_id)
    journal = RunJournal.begin(prepared.out, beginning.journal.header, [counts[k] for k in sorted(counts)])
    left, expected = _left(prepared, counts, totals)
    return Beginning(journal, left, totals, expected)


def require_same(out: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Make sure that a run is made from the same as the one it goes on with.

    Raises:
        ResumeError: It isn't; the message names each difference.
    """
    if found := differences(before, now):
        raise ResumeError(
            f"{out} can't be gone on with: {'; '.join(found)}: give the same as before, or --overwrite to begin anew"
        )


def require_same_archive(prepared: PreparedRun, counts: Mapping[int, BatchCount]) -> None:
    """Make sure that nobody has written to the files that the batches in ``counts`` were found in.

    Of a complete dataset, whose journal is gone, its own table says what they were.

    Raises:
        ResumeError: Somebody has.
    """
    noted = {k: stamp_number(count.stamp) for k, count in sorted(counts.items())} or _stamps_of_complete(prepared.out)
    batches = {prepared.plan[k]: stamp for k, stamp in noted.items() if stamp}
    changed = [
        batch
        for batch, stamp in batches.items()
        if stamp_number(prepared.archive.stamp(batch.start, batch.stop)) != stamp
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ResumeError(
            f"{prepared.out} can't be gone on with: the archive's files with {changed[0]}{more} have other sizes or "
            "times than when they were read: give --overwrite to begin anew"
        )


def _stamps_of_complete(out: str) -> dict[int, int]:
    table = read_table(out, "batches") if dataset_status(out) == "complete" else None
    return {} if table is None or "files_stamp" not in table else dict(enumerate(table["files_stamp"].values.tolist()))


def _header_of_complete(out: str) -> RunHeader | None:
    """What a finished run, whose journal is gone, says of itself; None if there is none."""
    if dataset_status(out) != "complete":
        return None
    attrs = read_attributes(out)
    made = attrs.get("made_from")
    return RunHeader((str(attrs["run_id"]),), json.loads(made), created=True) if isinstance(made, str) else None


def _is_whole(prepared: PreparedRun) -> bool:
    """Whether the dataset is complete and has all its chunks."""
    if dataset_status(prepared.out) != "complete":
        return False
    try:
        n_rows = open_dataset(prepared.out).sizes.get("cluster", 0)
    except DatasetError:  # its last chunk is not there
        return False
    chunks = stored_chunks(prepared.out)
    rows = range(-(-n_rows // prepared.layout.rows_per_chunk))
    return set(rows) <= chunks.rows.keys() and set(range(len(prepared.plan))) <= chunks.frames.keys()


def _may_replace(out: str, of_dataset: str) -> bool:
    """Whether what is there is what a run that never began to write was told to overwrite, or what it half made."""
    header = read_header(out)
    return header is not None and not header.created and of_dataset in (*header.run_ids, header.replaces)


def _totals(prepared: PreparedRun, header: RunHeader) -> ProductTotals:
    """The sum of the run that began with the journal's first; empty, until it is loaded."""
    folder, origin = side_folder(journal_place(prepared.out)), header.run_ids[0]
    return ProductTotals(prepared.options.products, prepared.archive.frame_shape, folder, origin)


def _found(counts: Mapping[int, BatchCount]) -> set[int]:
    return {k for k, count in counts.items() if count.status is FrameStatus.OK}


def _left(
    prepared: PreparedRun, counts: Mapping[int, BatchCount], totals: ProductTotals
) -> tuple[Remaining, dict[int, BatchCount]]:
    plan, layout = prepared.plan, prepared.layout
    chunks = stored_chunks(prepared.out)
    # Without a list no row has to be there.
    rows_of = counts if layout.cluster_list else {k: replace(count, n_clusters=0) for k, count in counts.items()}
    left = remaining(plan, rows_of, layout.rows_per_chunk, chunks.rows, chunks.frames)
    left = replace(left, kept={k: counts[k] for k in left.kept})
    if prepared.options.products.names:
        left = with_products(left, totals.batches)
    if prepared.options.tracking == "chain":
        states = ChainStates(side_folder(journal_place(prepared.out)))
        left = with_chain_starts(left, plan, states, prepared.options.parameters.n_samples)
    n_known = next((k for k in range(len(plan)) if k not in counts), len(plan))
    # A batch that is in the sum may no more come to something else than one whose rows have their places.
    return left, {k: counts[k] for k in left.to_find if k < n_known or k in totals.batches}


def _first_that_succeeds(
    prepared: PreparedRun, beginning: Beginning, client: Client, watch: ClusterWatch, run_id: str
) -> int | None:
    chained = prepared.options.tracking == "chain"
    counts = [beginning.left.kept.get(k) for k in range(len(prepared.plan))]
    at_once = 2 * max(watch.n_threads, 1)
    for first in range(0, len(beginning.skipped), at_once):
        reports = []
        for count in beginning.skipped[first : first + at_once]:
            index = count.batch.index
            start = chain_start(counts, index) if chained else None
            key = f"find-{run_id}-again-{index}"
            found = client.submit(find_again, run_id, count.batch, start, key=key, retries=2, pure=False)
            key = f"report-{run_id}-again-{index}"
            reports.append((index, client.submit(report_of, found, key=key, pure=False)))
        queue = as_completed([report for _, report in reports], loop=client.loop, raise_errors=False)
        while not queue.is_empty():
            watch.next_done(queue)
            if watch.should_stop():
                raise RunStoppedError("the skipped batches were being tried again")
        for index, report in reports:
            if report.status == "finished":
                return index
    return None
