"""Adding up what blocks of clusters give, in bounded memory and in any order."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.blocks import blocks

ROWS = 1 << 18
"""Clusters in a block of a dataset that is in memory."""

Counts = npt.NDArray[np.int64]


def add_up(function: Callable[..., Counts], n: int, columns: Sequence[xr.DataArray]) -> Counts:
    """Add up the `n` counts that `function` gives for each block of the `columns`.

    Lazy columns are read and gone through block by block wherever Dask runs, and the counts added up in a tree; being
    integers, they are the same in any order. Arrays in memory are cut into blocks for Dask's threads.

    Args:
        function: Takes one array for each column and returns int64 (n).
        n: How many counts.
        columns: (cluster) or (cluster, cluster_y, cluster_x), of equal length.
    """
    table = _table(columns)
    if table.sizes["cluster"] == 0:
        return np.zeros(n, np.int64)
    if not table.chunks:
        if table.sizes["cluster"] <= ROWS:
            return function(*(column.to_numpy() for column in table.values()))
        # A name of its own spares Dask the reading of all values to make one of them.
        table = table.chunk({"cluster": ROWS}, token=uuid4().hex)
    table = table.chunk({dim: -1 for dim in table.dims if dim != "cluster"}).unify_chunks()
    ndim = max(2, *(column.ndim for column in table.values()))
    arrays = [c.data[(..., *[np.newaxis] * (ndim - c.ndim))] for c in table.values()]
    first, others = arrays[0], arrays[1:]
    n_blocks = first.numblocks[0]
    parts = first.map_blocks(
        _Block(function, tuple(column.ndim for column in table.values())),
        *others,
        chunks=((1,) * n_blocks, (n,), *[(1,)] * (ndim - 2)),
        dtype=np.int64,
        meta=np.empty((0,) * ndim, np.int64),
    )
    return np.asarray(parts.sum(axis=0).compute()).reshape(n)


def add_up_in_place(function: Callable[..., None], counts: npt.NDArray[Any], columns: Sequence[xr.DataArray]) -> None:
    """Let `function` add each block of the `columns` to `counts`: for more counts than could be kept of every block.

    Args:
        function: Takes `counts` and one array for each column.
        counts: What is added to.
        columns: (cluster), of equal length.
    """
    table = _table(columns)
    for block in blocks(table, list(table), "cluster"):  # type: ignore[arg-type]
        function(counts, *(column.to_numpy() for column in block.values()))


def _table(columns: Sequence[xr.DataArray]) -> xr.Dataset:
    return xr.Dataset({f"{i:02}": column.variable for i, column in enumerate(columns)})


class _Block:
    """`function` on the blocks of Dask arrays that were given trailing dimensions to be as many for all."""

    def __init__(self, function: Callable[..., Counts], ndims: tuple[int, ...]) -> None:
        self._function = function
        self._ndims = ndims

    def __call__(self, *arrays: npt.NDArray[Any]) -> Counts:
        given = [a.reshape(a.shape[:ndim]) for a, ndim in zip(arrays, self._ndims, strict=True)]
        counts = self._function(*given)
        return counts.reshape(1, -1, *[1] * (arrays[0].ndim - 2))
