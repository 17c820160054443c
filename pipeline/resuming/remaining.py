"""What is left to be done of a run that was broken off: what its journal knows, against the chunks that are there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cluster_store import FrameStatus
from pipeline.batches.chain_states import ChainStates, chain_start
from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount


@dataclass(frozen=True)
class Remaining:
    """What is left to be done.

    Args:
        kept: What is known of the batches whose rows and frames are all in the dataset.
        to_find: All others, in order.
        n_chunks: Chunks along ``cluster`` that may hold rows of the kept batches: any later one says nothing.
    """

    kept: Mapping[int, BatchCount]
    to_find: Sequence[int]
    n_chunks: int


def remaining(
    plan: BatchPlan,
    counts: Mapping[int, BatchCount],
    rows_per_chunk: int,
    row_chunks: Collection[int],
    frame_chunks: Collection[int],
) -> Remaining:
    """Tell which batches are done: those whose rows are known, and every chunk that holds some of them is there.

    Args:
        plan: All batches of the run.
        counts: What the journal says of each.
        rows_per_chunk: Rows in a chunk of the dataset.
        row_chunks: The chunks along ``cluster`` that are there, in every array.
        frame_chunks: The chunks along ``frame`` that are there, in every array; one for each batch.
    """
    # Rows are known up to the first batch that isn't; later ones were found, and lost with their workers.
    n_known = next((k for k in range(len(plan)) if k not in counts), len(plan))
    n_clusters = np.fromiter((counts[k].n_clusters for k in range(n_known)), np.int64, n_known)
    stops = np.cumsum(n_clusters)
    n_rows = int(stops[-1]) if n_known else 0
    # A chunk is written when all its rows are known: the last one only at the end.
    n_chunks = -(-n_rows // rows_per_chunk) if n_known == len(plan) else n_rows // rows_per_chunk
    is_there = np.zeros(-(-n_rows // rows_per_chunk) + 1, bool)
    is_there[[chunk for chunk in row_chunks if chunk < n_chunks]] = True
    is_done = _all_there(is_there, stops - n_clusters, stops, rows_per_chunk)
    is_done &= np.fromiter((k in frame_chunks for k in range(n_known)), bool, n_known)
    done = np.flatnonzero(is_done).tolist()
    to_find = [*np.flatnonzero(~is_done).tolist(), *range(n_known, len(plan))]
    return Remaining({k: counts[k] for k in done}, to_find, n_chunks)


def with_products(left: Remaining, counted: Collection[int]) -> Remaining:
    """Add the batches that are done, and whose clusters are not counted in what was kept of the products."""
    kept = {k: count for k, count in left.kept.items() if k in counted or count.status is not FrameStatus.OK}
    return Remaining(kept, sorted({*left.to_find, *(left.kept.keys() - kept.keys())}), left.n_chunks)


def with_chain_starts(left: Remaining, plan: BatchPlan, states: ChainStates, n_samples: int) -> Remaining:
    """Add the batches from which the chain has to be taken up again where the state before one to be found is gone."""
    kept = dict(left.kept)
    counts = [kept.get(k) for k in range(len(plan))]
    to_find = set(left.to_find)
    for first in left.to_find:
        batch = first
        # Where the batch before it is to be found too, it leaves its state anew.
        while batch - 1 not in to_find and (start := chain_start(counts, batch)) is not None:
            if states.holds(start, n_samples):
                break
            batch = start.after
            to_find.add(batch)
            counts[batch] = None
            del kept[batch]
    return Remaining(kept, sorted(to_find), left.n_chunks)


def skipped(counts: Mapping[int, BatchCount]) -> list[BatchCount]:
    """The batches that were skipped, in order."""
    return [counts[k] for k in sorted(counts) if counts[k].status is not FrameStatus.OK]


def _all_there(
    is_there: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], rows_per_chunk: int
) -> npt.NDArray[np.bool_]:
    """Of each span of rows, whether all its chunks are there."""
    # Chunks missing before each one: a difference of two of these counts those in between.
    missing = np.concatenate([[0], np.cumsum(~is_there)])
    first, last = starts // rows_per_chunk, -(-stops // rows_per_chunk)
    first = np.where(stops > starts, first, last)
    complete: npt.NDArray[np.bool_] = missing[last] == missing[first]
    return complete
