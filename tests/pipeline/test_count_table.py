"""What is known of each batch of a run, packed."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

from cluster_store import FrameStatus
from finder.offset import Offset
from pipeline.batches.count_table import CountTable, column
from pipeline.batches.flat_counts import COLUMNS, count_of, values_of
from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount, since

PLAN = BatchPlan(3, 2_000_003, 20)


def made(k):
    return BatchCount(
        batch=PLAN[k], n_clusters=4_800_000 + k, nbytes=k << 33, worker=f"tcp {k % 8}", began=0.1 + k, ended=1.5,
        read_seconds=0.25, decode_seconds=0.125, read_bytes=7, stored_bytes=3, find_seconds=1e-9, minor_faults=2,
        movement=-0.125, offset=Offset(0.1, 0.2), digest=f"{k:032x}", status=FrameStatus(k % 2), cause='"ö"' * (k % 2),
        stamp=f"{7 * k:032x}", content=f"{k:016x}", state="",
    )  # fmt: skip


# A dataset's health holds NaN where nothing was looked at, and NaN is never equal to itself.
def same(one, other):
    return repr(one) == repr(other)


def test_a_batch_comes_out_as_it_went_in_and_the_others_are_not_known():
    table = CountTable(PLAN)
    for k in (5, 2, 99_999):
        table.put(made(k))
    assert same(table[5], made(5))
    assert same(table[99_999], made(99_999))
    assert table[0] is None
    assert len(table) == 100_000
    assert [count.batch.index for count in table.known()] == [2, 5, 99_999]
    assert same(table.known()[-1], made(99_999))
    assert [count.batch.index for count in table.known()[1:]] == [5, 99_999]
    with pytest.raises(IndexError):
        table[100_000]


def test_what_is_known_anew_takes_the_place_of_what_was():
    table = CountTable(PLAN)
    table.put(made(1))
    table.put(replace(made(1), n_clusters=1, cause=""))
    assert table[1].n_clusters == 1
    assert table[1].cause == ""


@pytest.mark.parametrize("name", [*COLUMNS, "batch.start", "batch.stop", "batch.n_frames"])
def test_a_column_holds_what_the_batches_do(name):
    table = CountTable(PLAN)
    for k in (99_999, 5, 2):
        table.put(made(k))
    expected = [attrgetter(name)(made(k)) for k in (2, 5, 99_999)]
    np.testing.assert_array_equal(column(table.known(), name), expected)
    np.testing.assert_array_equal(column(list(table.known()), name), expected)
    np.testing.assert_array_equal(column(table.known().at([2, 0]), name), [expected[2], expected[0]])
    assert len(column(CountTable(PLAN).known(), name)) == len(table.known().at([])) == 0


def test_a_digest_too_long_to_be_kept_is_refused_and_not_cut():
    with pytest.raises(ValueError, match="33 characters"):
        CountTable(PLAN).put(replace(made(1), stamp="0" * 33))


def test_a_row_becomes_the_batch_that_it_was_made_of():
    assert same(count_of(values_of(made(3)), PLAN), made(3))
    with pytest.raises(ValueError, match="a batch has"):
        count_of([*values_of(made(3)), 1], PLAN)


def test_a_batch_takes_less_than_five_hundred_bytes_and_nothing_grows_with_them():
    tracemalloc.start()
    table = CountTable(PLAN)
    assert tracemalloc.get_traced_memory()[0] / len(PLAN) < 500
    table.put(made(0))
    table.put(made(1))
    with_two = tracemalloc.get_traced_memory()[0]
    for k in range(2, 1000):
        table.put(made(k))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - with_two
    tracemalloc.stop()
    assert grown < 10_000


def test_what_a_worker_waited_before_a_run_handed_out_its_first_batch_is_start_up_and_not_idle_time():
    waited = replace(made(1), began=100.0, idle_seconds=3.0)
    assert since(98.0, waited).idle_seconds == 2.0
    assert since(90.0, waited).idle_seconds == 3.0
    # Of a worker whose clock is behind the client's nothing is known.
    assert since(101.0, waited).idle_seconds == 0
