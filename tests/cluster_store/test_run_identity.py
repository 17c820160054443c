"""Two runs and one place: the one that was there first stops and leaves the other's dataset alone."""

import json
import pickle
import shutil

import numpy as np
import pytest
import xarray as xr

from cluster_store import (
    ClusterWriter,
    DatasetError,
    create_dataset,
    finish_dataset,
    open_clusters,
    write_pedestal,
    write_table,
)
from finder import Pedestal

TABLE = xr.Dataset({"seconds": ("batch", [1.0, 2.0, 3.0])})


@pytest.fixture
def replaced(tmp_path, layout, make_rows):
    """A dataset of the run `second`, made over one that the run `first` had written whole, and the first's writer."""
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {}, run_id="first")
    writer = ClusterWriter(path, layout, "first")
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))
    create_dataset(path, layout, {}, overwrite=True, run_id="second")
    return path, writer, rows


def stopped(path):
    return pytest.raises(DatasetError, match=f"^{path} was replaced by another run .*; this run stops.$")


def test_a_dataset_says_which_run_it_is_of(tmp_path, layout):
    create_dataset(tmp_path / "a.zarr", layout, {}, run_id="r1")
    create_dataset(tmp_path / "b.zarr", layout, {})
    assert xr.open_zarr(tmp_path / "a.zarr", consolidated=False).attrs["run_id"] == "r1"
    assert "run_id" not in xr.open_zarr(tmp_path / "b.zarr", consolidated=False).attrs
    with pytest.raises(ValueError, match="'run_id' is set by the dataset itself"):
        create_dataset(tmp_path / "c.zarr", layout, {"run_id": "r1"}, run_id="r2")


def test_a_replaced_run_writes_nothing_into_the_dataset_of_the_other(replaced, layout, file_digests):
    path, writer, rows = replaced
    before = file_digests(path)
    for used in (writer, pickle.loads(pickle.dumps(writer))):  # with its arrays open from before, and anew
        with stopped(path):
            used.write_clusters(64, *rows.clusters(64, 128))
        with stopped(path):
            used.write_frames(20, *rows.frames(20, 40))
    with stopped(path):
        write_table(path, "batches", TABLE, run_id="first")
    with stopped(path):
        write_pedestal(path, Pedestal.from_mean_and_noise(np.ones((40, 60)), np.ones((40, 60))), run_id="first")
    assert file_digests(path) == before


def test_a_replaced_run_does_not_finish_the_dataset_of_the_other(replaced, layout, file_digests):
    path, _, rows = replaced
    second = ClusterWriter(path, layout, "second")
    second.write_clusters(0, *rows.clusters(0, 300))
    second.write_frames(0, *rows.frames(0, 50))
    before = file_digests(path)
    with stopped(path):
        finish_dataset(path, layout, 300, {"digest": "first's"}, run_id="first")
    assert file_digests(path) == before
    finish_dataset(path, layout, 300, {}, run_id="second")
    assert open_clusters(path).attrs["run_id"] == "second"


def test_a_run_that_is_replaced_while_it_finishes_does_not_mark_the_other_complete(
    tmp_path, layout, make_rows, monkeypatch
):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {}, run_id="first")
    writer = ClusterWriter(path, layout, "first")
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))

    def consolidate_and_be_replaced(location):
        create_dataset(location, layout, {}, overwrite=True, run_id="second")

    monkeypatch.setattr("cluster_store.lifecycle.consolidate", consolidate_and_be_replaced)
    with stopped(path):
        finish_dataset(path, layout, 300, {"digest": "first's"}, run_id="first")
    attrs = xr.open_zarr(path, consolidated=False).attrs
    assert (attrs["run_id"], attrs["status"], attrs.get("digest")) == ("second", "running", None)


def test_the_place_is_taken_before_anything_is_cleared_away(tmp_path, layout, monkeypatch):
    path = tmp_path / "c.zarr"
    create_dataset(path, layout, {}, run_id="first")
    run_ids, rmtree = [], shutil.rmtree

    def watched(tree, *args, **kwargs):
        run_ids.append(json.loads((path / "zarr.json").read_text())["attributes"]["run_id"])
        rmtree(tree, *args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", watched)
    create_dataset(path, layout, {}, overwrite=True, run_id="second")
    assert run_ids == ["second"] * 9


@pytest.mark.parametrize("damage", [None, "", "{", "[]", '{"attributes": 3}', "{}"])
def test_a_run_whose_dataset_was_removed_or_damaged_stops(tmp_path, layout, make_rows, damage):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 64)
    create_dataset(path, layout, {}, run_id="first")
    writer = ClusterWriter(path, layout, "first")
    writer.write_clusters(0, *rows.clusters(0, 64))
    if damage is None:
        shutil.rmtree(path)
    else:
        (path / "zarr.json").write_text(damage)
    for used in (writer, pickle.loads(pickle.dumps(writer))):
        with pytest.raises(DatasetError, match=f"^{path} was removed or damaged while this run went on"):
            used.write_clusters(0, *rows.clusters(0, 64))
    with pytest.raises(DatasetError, match=f"^{path} was removed or damaged"):
        finish_dataset(path, layout, 64, {}, run_id="first")
    assert path.exists() == (damage is not None)


def test_without_a_run_id_nothing_is_checked(replaced, layout):
    path, _, rows = replaced
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))
    write_table(path, "batches", TABLE)
    finish_dataset(path, layout, 300, {})
    assert open_clusters(path).sizes["cluster"] == 300
