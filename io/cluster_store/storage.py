"""How the arrays of a dataset are stored: their codecs, their bytes, and which of their chunks are not there."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import zarr
from zarr.core.metadata import ArrayV3Metadata

from cluster_store.arrays import StorePath, location_of
from cluster_store.chunks import missing_chunks, stored_keys
from cluster_store.damage import reading
from cluster_store.run_identity import open_store
from guarded_zarr import ObjectFolder, StoreFolder, codec_names, store_folder
from object_stores import listed


@dataclass(frozen=True)
class ArrayStorage:
    """How one array is stored.

    Attributes:
        name: its path in the dataset.
        rows_per_chunk: along its first dimension; 1 for a single number.
        codecs: what a chunk goes through, in order.
        decoded_bytes: of all elements.
        stored_bytes: of its files or objects, the metadata included.
        missing: the keys of the first chunks that are not there, ten at most.
    """

    name: str
    rows_per_chunk: int
    codecs: list[str]
    decoded_bytes: int
    stored_bytes: int
    missing: list[str]


def array_storage(path: StorePath) -> list[ArrayStorage]:
    """Say how each array of the dataset at `path` is stored, those of its groups included.

    Raises:
        DatasetError: The metadata is damaged.
        OSError: It cannot be read.
    """
    location = location_of(path)
    with reading(location):
        group = zarr.open_group(open_store(location), mode="r", zarr_format=3, use_consolidated=False)
        arrays = [array for _, array in group.arrays()]
        arrays += [array for _, child in group.groups() for _, array in child.arrays()]
    folder = store_folder(location)
    return [_storage(folder, array) for array in arrays]


def _storage(folder: StoreFolder, array: "zarr.Array[ArrayV3Metadata]") -> ArrayStorage:
    with reading(folder.place(array.path)):
        n_rows = array.shape[0] if array.ndim else 1
        return ArrayStorage(
            name=array.path,
            rows_per_chunk=array.chunks[0] if array.ndim else 1,
            codecs=codec_names(array),
            decoded_bytes=array.nbytes,
            stored_bytes=sum(_sizes(folder, array.path)),
            missing=list(islice(missing_chunks(array, n_rows, _stored(folder, array)), 10)),
        )


def _stored(folder: StoreFolder, array: "zarr.Array[ArrayV3Metadata]") -> set[str]:
    if array.ndim:
        return stored_keys(array)
    only = f"{array.path}/{array.metadata.encode_chunk_key(())}"
    return {only} if folder.is_there(only) else set()


def _sizes(folder: StoreFolder, path: str) -> Iterator[int]:
    if isinstance(folder, ObjectFolder):
        return (about.size for _, about in listed(folder.objects, path))
    return _file_sizes(folder.place(path))


def _file_sizes(folder: str) -> Iterator[int]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _file_sizes(entry.path)
            else:
                yield entry.stat(follow_symlinks=False).st_size
