"""Opening a finished dataset."""

import xarray as xr

from cluster_store.arrays import StorePath
from cluster_store.damage import reading
from cluster_store.status import require_complete


def open_clusters(path: StorePath) -> xr.Dataset:
    """Open a cluster dataset lazily: the same as `xr.open_zarr(path)`, but only once its run is complete.

    Returns:
        A Dataset with `signal(cluster, cluster_y, cluster_x)` in ADU, `x`, `y`, `frame_index` (cluster), `n_clusters`,
        `frame_number`, `frame_status` (frame). The clusters of a frame lie together, sorted by (frame, y, x).

    Raises:
        DatasetError: Nothing there, not a dataset of ours, a run that is not complete, a later format, or
            damaged metadata.
    """
    location = require_complete(path)
    with reading(location):
        clusters: xr.Dataset = xr.open_zarr(location)
    return clusters
