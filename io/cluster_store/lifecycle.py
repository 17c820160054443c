"""The beginning and the end of a dataset: arrays of length 0 at first, their true length at last."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.errors import ZarrUserWarning

from cluster_store.arrays import StorePath, create_array, location_of
from cluster_store.attributes import own_attributes, plain_attributes
from cluster_store.chunks import missing_chunks, stored_keys
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.replacing import require_replaceable
from cluster_store.run_identity import ROOT_KEY, RunIdentity
from cluster_store.schema import Variable, cluster_variables, frame_variables, window_offsets
from cluster_store.status import dataset_status, read_layout
from guarded_zarr import unsaid, writable_store

_CHUNKS_SUMMED_AT_ONCE = 256


def create_dataset(
    path: StorePath, layout: DatasetLayout, attrs: Mapping[str, Any], *, overwrite: bool = False, run_id: str = ""
) -> None:
    """Make an empty dataset with status `running`: no clusters yet, the frames' arrays at their full length.

    Args:
        path: Where; the place must be free unless `overwrite`.
        layout: Sizes, types and chunks.
        attrs: What the run says of itself: parameters, archive, versions, host, device, history. JSON values; flat
            ones (strings, numbers, lists of numbers) also survive an export to netCDF.
        overwrite: Remove an earlier dataset of ours, complete or not; what :func:`require_replaceable` refuses is never
            removed. A run that still writes it with a `run_id` of its own stops at its next write.
        run_id: What tells this run from any other; kept as the attribute `run_id`.

    Raises:
        DatasetError: Something lies there already, or the place cannot be written.
        ValueError: An attribute that JSON cannot hold.
    """
    location = location_of(path)
    plain = plain_attributes(attrs, layout, run_id)
    status = dataset_status(location)
    if status in ("running", "complete") and not overwrite:
        raise DatasetError(f"{location} exists (status {status}); choose another output, or ask to overwrite it.")
    try:
        require_replaceable(location)
        group = _take_place(location, own_attributes(layout, run_id) | plain, occupied=status != "absent")
        for variable in cluster_variables(layout):
            window = layout.cluster_size if variable.name == "signal" else ()
            _create(group, variable, (0, *window), (layout.rows_per_chunk, *window))
        for variable in frame_variables(layout):
            _create(group, variable, (layout.n_frames,), (layout.frames_per_chunk,))
        for variable, offsets in window_offsets(layout):
            array = _create(group, variable, (len(offsets),), (len(offsets),))
            array[:] = np.asarray(offsets, variable.dtype)
    except OSError as error:
        raise DatasetError(f"Cannot write to {location} ({error.strerror or error}); choose another output.") from error


def finish_dataset(
    path: StorePath,
    layout: DatasetLayout,
    n_clusters: int,
    attrs: Mapping[str, Any],
    *,
    run_id: str = "",
    at_last: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Set the true lengths and the last attributes, consolidate the metadata, and mark the dataset complete.

    Nothing is changed before every chunk has been seen to be there and `n_clusters` summed over the frames gives the
    number of clusters. Doing it again does no harm.

    Args:
        path: The dataset.
        layout: The one it was created with.
        n_clusters: Clusters in the whole run: the length of `cluster`, where the layout has a list of them.
        attrs: Added to those given at creation, replacing the ones of the same name.
        run_id: The run the dataset has to be of, at first and still at the end; empty: any.
        at_last: Attributes that can't be known before all this was done, such as how long it took; asked for once, and
            written together with the mark.

    Raises:
        DatasetError: Not a dataset of this layout or of the run `run_id`, chunks are missing, or the counts do not
            add up.
        ValueError: An attribute that JSON cannot hold.
    """
    location = location_of(path)
    plain = plain_attributes(attrs, layout, run_id)
    run = RunIdentity(location, run_id)
    run.require()
    if read_layout(location) != layout:
        raise DatasetError(f"{location} was laid out for another run; finish it with the layout it was created with.")
    with reading(location):
        group = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
        arrays = [_array(group, variable.name) for variable in (*cluster_variables(layout), *frame_variables())]
    lengths = [n_clusters] * len(cluster_variables(layout)) + [layout.n_frames] * len(frame_variables())
    missing = [key for array, n in zip(arrays, lengths, strict=True) for key in _missing_chunks(array, n)]
    if missing:
        named = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        raise DatasetError(
            f"{location} lacks {len(missing)} of its chunks ({named}); "
            "write the batches they belong to again before finishing."
        )
    if (total := _summed(_array(group, "n_clusters"))) != n_clusters:
        raise DatasetError(
            f"{location} has {total} clusters by the frames' counts but {n_clusters} were found; run it again."
        )
    run.require()
    for array, n in zip(arrays, lengths, strict=True):
        if array.shape[0] > n:
            raise DatasetError(f"{location} was finished with {array.shape[0]} rows, not {n}; run it again.")
        array.resize((n, *array.shape[1:]))
    # The root is written from what was read at first, so it has to be this run's still: before each time.
    run.require()
    group.attrs.update(plain | {"status": "running"})
    consolidate(location)
    run.require()
    # Last, and in one write: whoever sees `complete` also sees everything else.
    zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=True).attrs.update(
        plain_attributes(at_last(), layout, run_id) | {"status": "complete"}
    )


def _take_place(location: str, attrs: dict[str, Any], *, occupied: bool) -> zarr.Group:
    """Write the root group, and clear away whatever else lies at an occupied place.

    The root comes first: an unfinished store is known as ours by its `format`, also if clearing is broken off, and
    a run that still writes the earlier dataset finds another `run_id` before its chunks could land among the new ones.
    """
    if not occupied:
        return zarr.create_group(writable_store(location), attributes=attrs, zarr_format=3)
    group = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
    group.attrs.put(attrs)
    store = group.store_path.store

    async def clear() -> None:
        for name in [name async for name in store.list_dir("")]:
            if name.endswith(".partial"):  # a file, of a writer that was killed
                await store.delete(name)
            elif name != ROOT_KEY:
                await store.delete_dir(name)

    sync(clear())
    return group


def consolidate(location: str) -> None:
    """Gather the metadata of all arrays and groups in the root, so that opening takes one read."""
    # Said of every v3 store: that consolidated metadata is not in the specification yet.
    with unsaid(ZarrUserWarning):
        zarr.consolidate_metadata(writable_store(location), zarr_format=3)


def _create(
    group: zarr.Group, variable: Variable, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> zarr.Array[ArrayV3Metadata]:
    return create_array(
        group,
        variable.name,
        shape=shape,
        chunks=chunks,
        dtype=variable.dtype,
        dims=variable.dims,
        attrs=variable.attrs,
    )


def _array(group: zarr.Group, name: str) -> zarr.Array[ArrayV3Metadata]:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


def _missing_chunks(array: zarr.Array[ArrayV3Metadata], n_rows: int) -> Iterator[str]:
    """Keys of the chunks that `n_rows` rows need and the store has not.

    Also sweeps up what a killed writer left half-written: LocalStore writes to `….partial` and then renames.
    """
    stored = stored_keys(array)
    for key in stored:
        if key.endswith(".partial"):
            sync(array.store_path.store.delete(key))
    yield from missing_chunks(array, n_rows, stored)


def _summed(array: zarr.Array[ArrayV3Metadata]) -> int:
    step = array.chunks[0] * _CHUNKS_SUMMED_AT_ONCE
    blocks = (np.asarray(array[start : start + step]) for start in range(0, array.shape[0], step))
    return sum(int(block.sum(dtype=np.uint64)) for block in blocks)
