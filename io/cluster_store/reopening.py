"""Going on with a dataset whose run was broken off: what is in it, and what must not stay in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

from cluster_store.arrays import StorePath, location_of
from cluster_store.chunks import stored_keys, stored_sizes
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.run_identity import RunIdentity, open_store
from cluster_store.schema import cluster_variables, frame_variables
from cluster_store.status import read_layout
from guarded_zarr import writable_store

Array = zarr.Array[ArrayV3Metadata]


@dataclass(frozen=True)
class StoredChunks:
    """Which chunks of a dataset are there, in every array that has them: position, and bytes in all of the arrays.

    Attributes:
        rows: Those along `cluster`.
        frames: Those along `frame`.
    """

    rows: Mapping[int, int]
    frames: Mapping[int, int]


def stored_chunks(path: StorePath) -> StoredChunks:
    """List the chunks of a dataset, complete or not; takes one listing of each array.

    A file that holds nothing, as a machine that lost its power may leave, is no chunk.

    Raises:
        DatasetError: No dataset of ours lies at `path`, or its metadata is damaged.
    """
    location = location_of(path)
    layout = read_layout(location)
    with reading(location):
        group = zarr.open_group(open_store(location), mode="r", zarr_format=3, use_consolidated=False)
        rows = [_sizes(_array(group, variable.name)) for variable in cluster_variables(layout)]
        frames = [_sizes(_array(group, variable.name)) for variable in frame_variables()]
    return StoredChunks(_in_all(rows), _in_all(frames))


def reopen_dataset(path: StorePath, layout: DatasetLayout, attrs: Mapping[str, Any], *, run_id: str) -> None:
    """Take over a dataset, complete or not, for a run that goes on with it.

    It has status `running` and no length along `cluster` again. A run that still writes it stops at its next write.

    Args:
        path: The dataset.
        layout: The one it was created with.
        attrs: Added to the attributes, replacing those of the same name.
        run_id: Of the run that takes over.

    Raises:
        DatasetError: The dataset has another layout, or its metadata is damaged.
    """
    location = location_of(path)
    if read_layout(location) != layout:
        raise DatasetError(f"{location} was laid out for another run; go on with the layout it was created with.")
    with reading(location):
        group = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
        # In one write, which also drops the consolidated metadata.
        group.attrs.put({**group.attrs, **attrs, "run_id": run_id, "status": "running"})
        for variable in cluster_variables(layout):
            array = _array(group, variable.name)
            if array.shape[0]:
                # The chunks stay: a length of 0 given to `resize` would remove them.
                metadata = array.metadata.update_shape((0, *array.shape[1:]))
                assert isinstance(metadata, ArrayV3Metadata)
                sync(_write_metadata(array, metadata))


def remove_rows(path: StorePath, first_chunk: int, *, run_id: str) -> None:
    """Remove the chunks along `cluster` from `first_chunk` on, and what was left half-written.

    Raises:
        DatasetError: The dataset is not of the run `run_id`, or its metadata is damaged.
    """
    location = location_of(path)
    RunIdentity(location, run_id).require()
    layout = read_layout(location)
    with reading(location):
        group = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
        for variable in cluster_variables(layout):
            array = _array(group, variable.name)
            for key in stored_keys(array):
                position = _position(array, key)
                if key.endswith(".partial") or (position is not None and position >= first_chunk):
                    sync(array.store_path.store.delete(key))


async def _write_metadata(array: Array, metadata: ArrayV3Metadata) -> None:
    for key, content in metadata.to_buffer_dict(default_buffer_prototype()).items():
        await (array.store_path / key).set(content)


def _sizes(array: Array) -> dict[int, int]:
    """Positions and bytes of an array's chunks that aren't empty."""
    sizes = stored_sizes(array).items()
    return {position: size for key, size in sizes if size and (position := _position(array, key)) is not None}


def _in_all(arrays: Sequence[Mapping[int, int]]) -> dict[int, int]:
    if not arrays:  # a dataset without a list of clusters has none along `cluster`
        return {}
    first, *others = arrays
    return {
        position: size + sum(other[position] for other in others)
        for position, size in first.items()
        if all(position in other for other in others)
    }


def _position(array: Array, key: str) -> int | None:
    """A chunk's position along the first dimension; None for what is no chunk."""
    coordinates = key.removeprefix(f"{array.store_path.path}/c/").split("/")
    if len(coordinates) != array.ndim or not all(part.isdigit() for part in coordinates):
        return None
    return int(coordinates[0])


def _array(group: zarr.Group, name: str) -> Array:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array
