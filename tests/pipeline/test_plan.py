"""The plan: batches, and the rows that each of them writes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batches.plan import Batch, BatchPlan, RowSpan, SharedChunk


def test_batches_cover_the_frames_and_the_last_may_be_short():
    plan = BatchPlan(first_frame=10, stop_frame=27, batch_size=8)
    assert list(plan) == [Batch(0, 10, 18), Batch(1, 18, 26), Batch(2, 26, 27)]
    assert plan[1:] == [Batch(1, 18, 26), Batch(2, 26, 27)]
    assert plan.n_frames == sum(batch.n_frames for batch in plan) == 17
    assert str(plan[2]) == "batch 2 (frames 26:27)"


def test_a_batch_beyond_the_plan_is_an_index_error():
    with pytest.raises(IndexError):
        BatchPlan(0, 10, 5)[2]


@pytest.mark.parametrize(("first", "stop", "size"), [(0, 10, 0), (0, 10, -1), (5, 5, 1), (6, 5, 1), (-1, 5, 1)])
def test_a_plan_without_frames_or_batch_size_is_refused(first, stop, size):
    with pytest.raises(ValueError, match=r"batch size|are none"):
        BatchPlan(first, stop, size)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(counts=st.lists(st.integers(0, 25), min_size=1, max_size=30), rows_per_chunk=st.integers(1, 12))
def test_every_row_is_written_once_whatever_the_counts(counts, rows_per_chunk):
    written: dict[int, list[tuple[int, int]]] = {}  # first row of a chunk: the rows (batch, row) that it gets
    shared, row = SharedChunk(rows_per_chunk), 0
    spans = {}

    def join(chunk):
        if chunk is not None:
            first_row, batches = chunk
            ranges = [spans[batches[0]].tail, *(spans[batch].head for batch in batches[1:])]
            rows = [(batch, r) for batch, (a, b) in zip(batches, ranges, strict=True) for r in range(a, b)]
            assert first_row not in written
            written[first_row] = rows

    for batch, count in enumerate(counts):
        span = spans[batch] = RowSpan(row, row + count, rows_per_chunk)
        row += count
        assert span.head[1] == span.body[0]
        assert span.body[1] == span.tail[0]
        assert (span.head[0], span.tail[1]) == (span.start, span.stop)
        for first in range(*span.body, rows_per_chunk):
            assert first not in written
            written[first] = [(batch, r) for r in range(first, first + rows_per_chunk)]
        for start, stop in (span.head, span.tail):
            join(shared.take(batch, start, stop))
    join(shared.flush())

    assert all(first % rows_per_chunk == 0 for first in written)
    in_order = [row for first in sorted(written) for row in written[first]]
    owners = [batch for batch, count in enumerate(counts) for _ in range(count)]
    assert in_order == list(zip(owners, range(row), strict=True))
