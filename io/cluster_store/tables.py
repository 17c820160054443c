"""The groups beside the clusters: the pedestal the run started from, and what is known of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.core.sync import sync

from cluster_store.arrays import StorePath, create_array, location_of
from cluster_store.chunks import missing_chunks, stored_keys
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.run_identity import RunIdentity, open_store
from cluster_store.schema import GROUPS, PEDESTAL_ATTRS, PEDESTAL_STATE
from cluster_store.status import dataset_status
from cluster_store.table import Column, Table, TableLike
from guarded_zarr import bound_decoding, require_holdable, writable_store

if TYPE_CHECKING:
    import xarray as xr

    from finder import Pedestal

_CHUNK_BYTES = 8 * 2**20


def write_table(path: StorePath, group: str, table: TableLike, *, run_id: str = "") -> None:
    """Merge the variables of `table` into `group`, replacing those of the same name.

    Args:
        path: A dataset that is not finished.
        group: `pedestal`, `batches` or `products`.
        table: Numeric variables and coordinates with their attributes, small enough for memory.
        run_id: The run the dataset has to be of; empty: any.

    Raises:
        DatasetError: No unfinished dataset of ours lies at `path`, or it is not of the run `run_id`.
        ValueError: Another group, or a dimension that has another size in the group already.
        TypeError: A variable that is not numeric.
    """
    location = location_of(path)
    if group not in GROUPS:
        raise ValueError(f"{group!r} is no group of a cluster dataset; it must be one of {', '.join(GROUPS)}.")
    RunIdentity(location, run_id).require()
    if (status := dataset_status(location)) != "running":
        raise DatasetError(f"{location} is {status}; tables are written while the run goes on, before it is finished.")
    for name, variable in table.variables.items():
        if variable.values.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} is {variable.values.dtype}; a table holds numbers; "
                "give an index and list the names in the attributes."
            )
    root = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
    target = root.require_group(group)
    _check_sizes(target, table)
    for name, variable in table.variables.items():
        values = variable.values
        array = create_array(
            target,
            str(name),
            shape=values.shape,
            chunks=_chunks(values),
            dtype=values.dtype,
            dims=tuple(str(dim) for dim in variable.dims),
            attrs=_plain(variable.attrs),
            overwrite=True,
        )
        array[...] = values
    target.attrs.update(_plain(table.attrs))


def write_pedestal(path: StorePath, pedestal: Pedestal, *, run_id: str = "") -> None:
    """Write the state the run starts from into the group `pedestal`: what `read_pedestal` gives back.

    Raises:
        DatasetError: As :func:`write_table`.
    """
    planes = {name: getattr(pedestal, name) for name in PEDESTAL_ATTRS}
    variables = {name: Column(("y", "x"), plane, PEDESTAL_ATTRS[name]) for name, plane in planes.items()}
    write_table(path, "pedestal", Table(variables, {"n_samples": pedestal.n_samples}), run_id=run_id)


def read_pedestal(path: StorePath) -> Pedestal:
    """The pedestal that the run at `path` started from, bit for bit.

    Raises:
        DatasetError: No dataset of ours lies there, it holds no pedestal, or the pedestal is damaged or lacks a chunk.
    """
    from finder import Pedestal  # late: opening a dataset need not wait for Numba

    location = location_of(path)
    if (status := dataset_status(location)) in ("absent", "foreign"):
        raise DatasetError(f"{location} is {status}, so it has no pedestal; give the path of a cluster dataset.")
    none = f"{location} holds no pedestal; give an archive with dark frames instead."
    with reading(f"{location}/pedestal"):
        try:
            store = open_store(location)
            group = zarr.open_group(store, path="pedestal", mode="r", zarr_format=3, use_consolidated=False)
        except FileNotFoundError as error:
            raise DatasetError(none) from error
        state: dict[str, Any] = {"n_samples": group.attrs.get("n_samples")}
        # They are written last: without them the run was broken off before its pedestal was whole.
        if state["n_samples"] is None:
            raise DatasetError(none)
        for name, dtype in PEDESTAL_STATE.items():
            if not sync((group.store_path / name / "zarr.json").exists()):
                raise DatasetError(none)
            state[name] = _read_plane(group, name, dtype, location)
        return Pedestal(**state)


def read_table(path: StorePath, group: str) -> xr.Dataset | None:
    """The variables of `group` in memory, with their attributes; None if the dataset has no such group.

    Raises:
        DatasetError: The group is damaged, lacks a chunk, or holds what is no table of numbers.
    """
    import xarray as xr  # late, as in cluster_store.opener

    location = location_of(path)
    with reading(f"{location}/{group}"):
        try:
            found = zarr.open_group(open_store(location), path=group, mode="r", zarr_format=3, use_consolidated=False)
        except FileNotFoundError:
            return None
        return xr.Dataset(
            {name: _read_variable(location, array) for name, array in sorted(found.arrays())}, attrs=dict(found.attrs)
        )


def _read_variable(location: str, array: zarr.Array[Any]) -> xr.Variable:
    import xarray as xr  # late, as in cluster_store.opener

    with reading(f"{location}/{array.path}"):
        if array.dtype.kind not in "biuf":
            raise TypeError(f"it holds {array.dtype} values, and a table holds numbers")
        dims = tuple(str(dim) for dim in array.metadata.to_dict().get("dimension_names") or ())  # type: ignore[union-attr]
        return xr.Variable(dims, _read_whole(array, location), dict(array.attrs))


def _read_whole(array: zarr.Array[Any], location: str) -> np.ndarray[Any, Any]:
    bound_decoding(array)
    require_holdable(array.nbytes)
    # Zarr reads a chunk that is not there as zeros.
    for key in missing_chunks(array, array.shape[0], stored_keys(array)) if array.ndim else ():
        raise DatasetError(f"{location} lacks the chunk {key}; copy the dataset again, or make it anew with `process`.")
    return np.asarray(array[...])


def _read_plane(group: zarr.Group, name: str, dtype: str, location: str) -> np.ndarray[Any, Any]:
    with reading(f"{location}/{group.path}/{name}"):
        plane = group[name]
        if not isinstance(plane, zarr.Array) or plane.dtype != dtype:
            raise TypeError(f"no array of {dtype}")
        bound_decoding(plane)
        require_holdable(plane.nbytes)
        # Zarr reads a chunk that is not there as zeros.
        for key in missing_chunks(plane, plane.shape[0], stored_keys(plane)):
            raise DatasetError(
                f"{location} lacks the chunk {key} of its pedestal's array {name!r}; "
                "copy the dataset again, or give an archive with dark frames instead."
            )
        return np.asarray(plane[...])


def _check_sizes(target: zarr.Group, table: TableLike) -> None:
    sizes = {
        dim: size
        for variable in table.variables.values()
        for dim, size in zip(variable.dims, variable.values.shape, strict=True)
    }
    for name, array in target.arrays():
        if name in table.variables:
            continue
        for dim, size in zip(array.metadata.dimension_names or (), array.shape, strict=True):  # type: ignore[union-attr]
            if sizes.get(dim, size) != size:
                raise ValueError(
                    f"The dimension {dim} has size {sizes[dim]} here and {size} in {name!r} already; "
                    "write all variables of one dimension with the same size."
                )


def _chunks(values: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Whole, or cut along the first dimension into about 8 MiB."""
    if values.ndim == 0:
        return ()
    row_bytes = max(1, values.nbytes // max(1, values.shape[0]))
    rows = min(max(1, values.shape[0]), max(1, _CHUNK_BYTES // row_bytes))
    return (rows, *(max(1, size) for size in values.shape[1:]))


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(name): value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in attrs.items()
    }
