"""Adding up what blocks of clusters give, in bounded memory and in any order."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.blocks import blocks
from analysis.columns import BlockCall, aligned, map_blocks

ROWS = 1 << 18
"""Clusters in a block of a dataset that is in memory."""

Counts = npt.NDArray[np.int64]


def add_up(function: Callable[..., Counts], n: int, columns: Sequence[xr.DataArray]) -> Counts:
    """Add up the `n` counts that `function` gives for each block of the `columns`.

    Lazy columns are read and gone through block by block wherever Dask runs, and the counts added up in a tree; being
    integers, they are the same in any order. Arrays in memory are seen in blocks, uncopied, in threads.

    Args:
        function: Takes one array for each column and returns int64 (n).
        n: How many counts.
        columns: (cluster) or (cluster, cluster_y, cluster_x), of equal length.
    """
    table = aligned(columns)
    if table.sizes["cluster"] == 0:
        return np.zeros(n, np.int64)
    if not table.chunks:
        return _add_up_in_memory(function, [column.to_numpy() for column in table.values()])
    call = BlockCall(function, tuple(column.ndim for column in table.values()), _as_row)
    parts = map_blocks(call, table, ((1,), (n,)), np.int64)
    return np.asarray(parts.sum(axis=0).compute()).reshape(n)


def add_up_in_place(function: Callable[..., None], counts: npt.NDArray[Any], columns: Sequence[xr.DataArray]) -> None:
    """Let `function` add each block of the `columns` to `counts`: for more counts than could be kept of every block.

    Args:
        function: Takes `counts` and one array for each column.
        counts: What is added to.
        columns: (cluster), of equal length.
    """
    table = aligned(columns)
    for block in blocks(table, [str(name) for name in table], "cluster"):
        function(counts, *(column.to_numpy() for column in block.values()))


def _add_up_in_memory(function: Callable[..., Counts], columns: list[npt.NDArray[Any]]) -> Counts:
    """Views of the columns, a block at a time, in as many threads as there are processors."""
    starts = range(0, len(columns[0]), ROWS)
    if len(starts) == 1:
        return function(*columns)
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as threads:
        parts = threads.map(lambda at: function(*(column[at : at + ROWS] for column in columns)), starts)
        total = next(parts).copy()
        for part in parts:
            total += part
    return total


def _as_row(counts: Counts) -> Counts:
    return counts[np.newaxis]
