"""Datasets that tell how many clusters there were, and what was counted of them, and not which."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from cluster_store import (
    ClusterWriter,
    DatasetError,
    create_dataset,
    finish_dataset,
    open_clusters,
    open_dataset,
    read_layout,
    require_replaceable,
    write_table,
)
from cluster_store.formats import export_clusters


@pytest.fixture
def listless(tmp_path, layout, make_rows):
    """A finished dataset of 300 clusters that are not there, with a table of products."""
    layout = replace(layout, cluster_list=False)
    path, rows = tmp_path / "clusters.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    ClusterWriter(path, layout).write_frames(0, *rows.frames(0, 50))
    write_table(path, "products", xr.Dataset({"spectrum": ("energy", np.arange(5))}))
    finish_dataset(path, layout, 300, {})
    return path, layout, rows


def test_it_has_what_lies_along_the_frames_and_nothing_that_could_be_taken_for_clusters(listless):
    path, layout, rows = listless
    assert read_layout(path) == layout
    for ds in (xr.open_zarr(path), open_dataset(path)):
        assert set(ds.variables) == {"n_clusters", "frame_number", "frame_status"}
        assert dict(ds.sizes) == {"frame": 50}
        np.testing.assert_array_equal(ds.n_clusters, rows.n_clusters)
        assert (ds.attrs["cluster_list"], ds.attrs["status"]) == ("absent", "complete")
        # CF would have it that this many rows follow one another somewhere.
        assert "sample_dimension" not in ds.n_clusters.attrs
    assert xr.open_zarr(path, group="products").spectrum.values.tolist() == [0, 1, 2, 3, 4]


def test_who_asks_for_clusters_is_told_that_there_are_none(listless, tmp_path):
    for ask in (open_clusters, lambda path: export_clusters(path, tmp_path / "c.clust")):
        with pytest.raises(DatasetError, match=r"without a list of clusters \(--no-clusters\): xr.open_zarr opens"):
            ask(listless[0])


def test_it_is_replaced_like_any_other(listless, layout):
    require_replaceable(listless[0])
    create_dataset(listless[0], layout, {}, overwrite=True)
    assert read_layout(listless[0]).cluster_list


def test_the_counts_of_the_frames_have_to_add_up_all_the_same(tmp_path, layout, make_rows):
    layout = replace(layout, cluster_list=False)
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    ClusterWriter(path, layout).write_frames(0, *rows.frames(0, 40))
    with pytest.raises(DatasetError, match="lacks 3 of its chunks"):
        finish_dataset(path, layout, 300, {})
    ClusterWriter(path, layout).write_frames(40, *rows.frames(40, 50))
    with pytest.raises(DatasetError, match="300 clusters by the frames' counts but 299 were found"):
        finish_dataset(path, layout, 299, {})
