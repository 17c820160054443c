"""The clusters of a batch between finding and writing."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finder.rounding import narrowed
from pipeline.batches.found import ClusterRows, FoundBatch


def rows(first: int, n: int) -> ClusterRows:
    index = np.arange(first, first + n)
    signal = np.repeat(index, 9).reshape(n, 3, 3).astype(np.int32)
    return ClusterRows(index.astype(np.uint32), index.astype(np.uint16), index.astype(np.uint16), signal)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(0, 6), max_size=8), data=st.data())
def test_rows_are_the_same_in_whatever_blocks_they_were_found(sizes, data):
    total = sum(sizes)
    blocks, first = [], 0
    for size in sizes:
        blocks.append(rows(first, size))
        first += size
    found = FoundBatch(blocks, template=rows(0, 0))
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    part = found.rows(start, stop)
    assert len(found) == total
    np.testing.assert_array_equal(part.frame_index, np.arange(start, stop))
    np.testing.assert_array_equal(part.signal[:, 1, 1], np.arange(start, stop))
    assert part.signal.shape == (stop - start, 3, 3)


def test_dask_is_told_the_bytes_that_a_batch_takes():
    found = FoundBatch([rows(0, 100), rows(100, 50)], template=rows(0, 0))
    # sys.getsizeof is what Dask asks; it adds the few bytes of the object's own header.
    assert found.nbytes == 150 * (4 + 2 + 2 + 36)
    assert 0 <= sys.getsizeof(found) - found.nbytes < 64


def test_a_copied_part_does_not_keep_the_whole_alive():
    whole = rows(0, 1000)
    part = whole[:3].copy()
    assert part.signal.base is None
    np.testing.assert_array_equal(part.signal, whole.signal[:3])


@pytest.mark.parametrize(
    ("value", "dtype"), [(32767, np.int16), (-32768, np.int16), (32768, np.int32), (-32769, np.int32)]
)
def test_a_signal_is_held_in_half_the_memory_only_where_it_fits(value, dtype):
    signal = np.array([[[0, 1, -1], [value, 5, 6], [7, 8, 9]]], np.int32)
    narrow = narrowed(signal)
    assert narrow.dtype == dtype
    np.testing.assert_array_equal(narrow, signal)


def test_a_float_signal_is_held_as_it_is():
    signal = np.ones((2, 3, 3), np.float32)
    assert narrowed(signal) is signal


def test_parts_of_different_width_are_joined_without_a_change_of_value():
    wide = rows(40_000, 3)
    small = replace(wide, signal=(wide.signal - 40_000).astype(np.int16))
    joined = ClusterRows.concatenate([small, wide])
    np.testing.assert_array_equal(joined.signal[:, 0, 0], [0, 1, 2, 40_000, 40_001, 40_002])
