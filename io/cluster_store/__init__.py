"""The cluster dataset: a CF contiguous ragged array in Zarr, written by many processes, opened by `xr.open_zarr`."""

from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.lifecycle import create_dataset, finish_dataset
from cluster_store.noting import note_attributes
from cluster_store.opener import open_clusters, open_dataset
from cluster_store.reopening import StoredChunks, remove_rows, reopen_dataset, stored_chunks
from cluster_store.replacing import require_replaceable
from cluster_store.schema import FORMAT_VERSION, FrameStatus
from cluster_store.status import dataset_status, read_attributes, read_layout
from cluster_store.storage import ArrayStorage, array_storage
from cluster_store.table import Column, Table
from cluster_store.tables import read_pedestal, read_table, write_pedestal, write_table
from cluster_store.writer import ClusterWriter, Written

__all__ = [
    "FORMAT_VERSION",
    "ArrayStorage",
    "ClusterWriter",
    "Column",
    "DatasetError",
    "DatasetLayout",
    "FrameStatus",
    "StoredChunks",
    "Table",
    "Written",
    "array_storage",
    "create_dataset",
    "dataset_status",
    "finish_dataset",
    "note_attributes",
    "open_clusters",
    "open_dataset",
    "read_attributes",
    "read_layout",
    "read_pedestal",
    "read_table",
    "remove_rows",
    "reopen_dataset",
    "require_replaceable",
    "stored_chunks",
    "write_pedestal",
    "write_table",
]
