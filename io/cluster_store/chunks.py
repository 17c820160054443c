"""Which chunks of an array lie in the store."""

import os
from collections.abc import Iterator, Sequence, Set

import zarr
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

from guarded_zarr import ObjectFolder, StoreFolder
from object_stores import RemoteStore, listed


def stored_keys(array: zarr.Array[ArrayV3Metadata]) -> set[str]:
    """Keys of everything that lies where the array's chunks do; found with one listing."""
    store, prefix = array.store_path.store, array.store_path.path

    async def listing() -> set[str]:
        return {key async for key in store.list_prefix(f"{prefix}/c/")}

    return sync(listing())


def stored_sizes(array: zarr.Array[ArrayV3Metadata]) -> dict[str, int]:
    """Bytes of all whole files that lie where the array's chunks do, by key; found with one listing."""
    store, prefix = array.store_path.store, array.store_path.path
    if isinstance(store, RemoteStore):
        return {key: about.size for key, about in listed(store.objects, f"{prefix}/c")}
    # What is being written has another name as soon as it is whole.
    keys = [key for key in stored_keys(array) if not key.endswith(".partial")]

    async def sizes() -> dict[str, int]:
        return {key: await store.getsize(key) for key in keys}

    return sync(sizes())


def n_entries(folder: StoreFolder, path: str) -> int:
    """How many files, folders or objects lie in `path` of a store, each folder counted once, each object too."""
    if isinstance(folder, ObjectFolder):
        return sum(1 for _ in listed(folder.objects, path))
    with os.scandir(folder.place(path)) as entries:
        return sum(1 for _ in entries)


def missing_chunks(array: zarr.Array[ArrayV3Metadata], n_rows: int, stored: Set[str]) -> Iterator[str]:
    """Keys of the chunks that the first `n_rows` rows need and that are not `stored`."""
    shape = (n_rows, *array.shape[1:]) if array.ndim else ()
    counts = [-(-size // chunk) for size, chunk in zip(shape, array.chunks, strict=True)]
    for chunk in _grid(counts):
        key = f"{array.store_path.path}/{array.metadata.encode_chunk_key(chunk)}"
        if key not in stored:
            yield key


def _grid(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The coordinates of all chunks in order; unlike itertools' product, of any number of them in no memory."""
    if not counts:
        yield ()
        return
    for first in range(counts[0]):
        for rest in _grid(counts[1:]):
            yield (first, *rest)
