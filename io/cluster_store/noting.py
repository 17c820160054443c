"""Attributes that a run notes while its dataset is not complete."""

from collections.abc import Mapping
from typing import Any

import zarr

from cluster_store.arrays import StorePath, location_of
from cluster_store.attributes import plain_attributes
from cluster_store.damage import reading
from cluster_store.run_identity import RunIdentity
from cluster_store.status import dataset_status, read_layout
from guarded_zarr import writable_store


def note_attributes(path: StorePath, attrs: Mapping[str, Any], *, run_id: str) -> bool:
    """Add attributes to a dataset whose run has not ended, replacing those of the same name.

    Args:
        path: The dataset.
        attrs: As for :func:`create_dataset`.
        run_id: The run that it has to be of.

    Returns:
        False, with nothing changed, if it is complete.

    Raises:
        DatasetError: It is another run's, gone or damaged.
    """
    location = location_of(path)
    plain = plain_attributes(attrs, read_layout(location), run_id)
    RunIdentity(location, run_id).require()
    if dataset_status(location) != "running":
        return False
    with reading(location):
        group = zarr.open_group(writable_store(location), mode="r+", zarr_format=3, use_consolidated=False)
        group.attrs.update(plain)
    return True
