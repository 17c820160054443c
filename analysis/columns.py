"""Functions of blocks of clusters, applied to the columns of a dataset: at once in memory, block by block when lazy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

WINDOW = ("cluster_y", "cluster_x")


def per_cluster(
    function: Callable[..., Any], columns: Sequence[xr.DataArray], dtypes: tuple[npt.DTypeLike, ...] = (np.float64,)
) -> Any:
    """Apply `function` to the arrays of `columns`, a block at a time when they are lazy.

    Args:
        function: Takes one array for each column and returns one (cluster) for each of `dtypes`, in a tuple if several.
        columns: (cluster) or (cluster, cluster_y, cluster_x), of equal length.
        dtypes: What the function returns.

    Returns:
        One array (cluster) for each of `dtypes`, in a tuple if several; without names and attributes.
    """
    table = aligned(columns)
    if not table.chunks:
        found = function(*(column.to_numpy() for column in table.values()))
        arrays = found if len(dtypes) > 1 else (found,)
    else:
        # Several results leave a block side by side, as the largest of their types, which holds them all.
        common = np.result_type(*dtypes)
        call = BlockCall(function, tuple(column.ndim for column in table.values()), _Beside(common))
        beside = map_blocks(call, table, ((None,), (len(dtypes),)), common)
        arrays = tuple(beside[(slice(None), i, *[0] * (beside.ndim - 2))].astype(d) for i, d in enumerate(dtypes))
    results = tuple(xr.DataArray(array, dims="cluster") for array in arrays)
    return results if len(dtypes) > 1 else results[0]


def aligned(columns: Sequence[xr.DataArray]) -> xr.Dataset:
    """The columns side by side, cut into the same blocks if they are lazy, windows never cut."""
    table = xr.Dataset({f"{i:02}": column.variable for i, column in enumerate(columns)})
    if not is_lazy(table):
        return table
    table = table.unify_chunks()
    whole = {dim: -1 for dim in table.dims if dim != "cluster"}
    if "cluster" not in table.chunks:
        whole["cluster"] = -1
    loaded = {name: column.chunk() for name, column in table.items() if column.chunks is None}
    return table.assign(loaded).chunk(whole).unify_chunks()


def is_lazy(ds: xr.Dataset) -> bool:
    """Whether anything of a dataset is a Dask array; variables may be cut differently, which `ds.chunks` refuses."""
    return any(variable.chunks is not None for variable in ds.variables.values())


def map_blocks(
    function: "BlockCall", table: xr.Dataset, sizes: tuple[tuple[Any, ...], ...], dtype: npt.DTypeLike
) -> Any:
    """A Dask array of what `function` makes of each block of an `aligned` table.

    Dimensions are only ever added, with length 1, and never dropped: dropping one makes Dask copy the block.

    Args:
        function: Takes one array for each column.
        table: From `aligned`, lazy.
        sizes: Of a block of the result, its first two dimensions; (None,) for as many as the block has clusters.
        dtype: Of the result.
    """
    ndim = max(2, *(column.ndim for column in table.values()))
    arrays = [column.data[(..., *[np.newaxis] * (ndim - column.ndim))] for column in table.values()]
    rows = arrays[0].chunks[0]
    first = rows if sizes[0] == (None,) else sizes[0] * len(rows)
    return arrays[0].map_blocks(
        function,
        *arrays[1:],
        chunks=(first, sizes[1], *[(1,)] * (ndim - 2)),
        dtype=dtype,
        meta=np.empty((0,) * ndim, dtype),
    )


class BlockCall:
    """`function` on blocks that were given trailing dimensions to have as many for all columns."""

    def __init__(
        self, function: Callable[..., Any], ndims: tuple[int, ...], shape: Callable[[Any], npt.NDArray[Any]]
    ) -> None:
        self._function = function
        self._ndims = ndims
        self._shape = shape

    def __call__(self, *arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The result with the trailing dimensions, each of length 1."""
        given = [a.reshape(a.shape[:ndim]) for a, ndim in zip(arrays, self._ndims, strict=True)]
        found = self._shape(self._function(*given))
        return found.reshape(*found.shape, *[1] * (arrays[0].ndim - 2))


class _Beside:
    """Results (cluster) as the columns (cluster, result) of one array."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = dtype

    def __call__(self, found: Any) -> npt.NDArray[Any]:
        if not isinstance(found, tuple):
            return np.asarray(found, self._dtype)[:, np.newaxis]
        return np.stack([np.asarray(values, self._dtype) for values in found], axis=1)


def require_on(shape: tuple[int, ...], y: npt.NDArray[Any], x: npt.NDArray[Any]) -> None:
    """Refuse clusters beyond a map of `shape` (y, x).

    Raises:
        ValueError: There are some.
    """
    if not len(y):
        return
    if y.max() >= shape[0] or x.max() >= shape[1] or _least(y) < 0 or _least(x) < 0:
        at = int(np.argmax((y >= shape[0]) | (x >= shape[1]) | (y < 0) | (x < 0)))
        raise ValueError(f"A cluster lies at y = {y[at]}, x = {x[at]}, beyond the shape {tuple(shape)} of the map.")


def _least(positions: npt.NDArray[Any]) -> int:
    return 0 if positions.dtype.kind == "u" else int(positions.min())
