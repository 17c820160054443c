"""Opening a finished dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_store.arrays import StorePath
from cluster_store.damage import reading
from cluster_store.dataset_store import DatasetStore
from cluster_store.run_identity import open_store
from cluster_store.soundness import require_sound
from cluster_store.status import require_cluster_list, require_complete

if TYPE_CHECKING:
    import xarray as xr


def open_clusters(path: StorePath) -> xr.Dataset:
    """Open a cluster dataset lazily: the same as `xr.open_zarr(path)`, but only once its run is complete.

    On an object store (`s3://…`) too, with what the environment says of keys.

    A chunk that is missing or damaged raises a `DatasetError` that names its file, whenever it is read; `xr.open_zarr`
    takes a missing one for zeros, as Zarr does.

    Returns:
        A Dataset with `signal(cluster, cluster_y, cluster_x)` in ADU, `x`, `y`, `frame_index` (cluster), `n_clusters`,
        `frame_number`, `frame_status` (frame). The clusters of a frame lie together, sorted by (frame, y, x).

    Raises:
        DatasetError: Nothing there, not a dataset of ours, a run that is not complete, one without a list of
            clusters, a later format, or metadata that is damaged or contradicts itself.
    """
    require_cluster_list(require_complete(path))
    return open_dataset(path)


def open_dataset(path: StorePath) -> xr.Dataset:
    """Open a dataset as `open_clusters` does, also one without a list of clusters: it has what lies along `frame`.

    Raises:
        DatasetError: As for `open_clusters`.
    """
    import xarray as xr  # late: it takes most of a second, and a run that writes a dataset does not open it

    location = require_complete(path)
    store = DatasetStore(open_store(location), location, require_sound(location))
    with reading(location):
        clusters: xr.Dataset = xr.open_zarr(store)
    # As if it had been opened by its path.
    clusters.encoding["source"] = location
    return clusters
