"""Reading Zarr stores that somebody else may have written: what is no file, leads elsewhere or lies is not read."""

from guarded_zarr.arrays import bound_decoding, codec_names, largest_stored, opened_array, require_holdable
from guarded_zarr.bounded_codecs import blosc_sizes, require_blosc_length
from guarded_zarr.enclosing import enclosing_store
from guarded_zarr.errors import GuardError, RefusedError
from guarded_zarr.files import open_regular, read_part
from guarded_zarr.folders import StoreFolder
from guarded_zarr.local_folder import LocalFolder
from guarded_zarr.metadata_json import (
    METADATA_NAMES,
    cut_short,
    parsed,
    require_plain_codecs,
    require_shallow,
)
from guarded_zarr.object_folder import GuardedObjectStore, ObjectFolder
from guarded_zarr.opening import guarded_store, store_folder, writable_store
from guarded_zarr.store import GuardedStore
from guarded_zarr.unsaid import unsaid

__all__ = [
    "METADATA_NAMES",
    "GuardError",
    "GuardedObjectStore",
    "GuardedStore",
    "LocalFolder",
    "ObjectFolder",
    "RefusedError",
    "StoreFolder",
    "blosc_sizes",
    "bound_decoding",
    "codec_names",
    "cut_short",
    "enclosing_store",
    "guarded_store",
    "largest_stored",
    "open_regular",
    "opened_array",
    "parsed",
    "read_part",
    "require_blosc_length",
    "require_holdable",
    "require_plain_codecs",
    "require_shallow",
    "store_folder",
    "unsaid",
    "writable_store",
]
