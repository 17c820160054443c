"""Where a store lies: in a local folder, or on an object store. Nothing else asks."""

from __future__ import annotations

import os

from guarded_zarr.folders import StoreFolder
from guarded_zarr.local_folder import LocalFolder
from guarded_zarr.object_folder import GuardedObjectStore, ObjectFolder
from guarded_zarr.store import GuardedStore
from object_stores import Objects, RemoteStore, is_url


def store_folder(place: str | os.PathLike[str]) -> StoreFolder:
    """The folder of the store at `place`, a path or an address, whether or not it is there.

    Raises:
        AddressError: it is an address of nothing that is known here.
    """
    text = os.fspath(place)
    return ObjectFolder.of(text) if is_url(text) else LocalFolder.of(text)


def guarded_store(folder: StoreFolder) -> GuardedStore | GuardedObjectStore:
    """The store in a folder, for Zarr, for reading."""
    return GuardedObjectStore(folder.objects) if isinstance(folder, ObjectFolder) else GuardedStore(folder.path)


def writable_store(location: str) -> RemoteStore | str:
    """The store at a path or an address, for Zarr, for writing; a path is its own, and is not made by being asked for.

    Raises:
        AddressError: it is an address of nothing that is known here.
    """
    return RemoteStore(Objects.at(location)) if is_url(location) else location
