"""Overwriting removes what photonflow wrote, and never anything else."""

import shutil

import numpy as np
import pytest
import xarray as xr
import zarr

from cluster_store import (
    ClusterWriter,
    DatasetError,
    create_dataset,
    finish_dataset,
    require_replaceable,
    write_pedestal,
    write_table,
)
from finder import Pedestal


@pytest.fixture
def running(tmp_path, layout, make_rows):
    """All that a run writes, but for its end: clusters, frames, a pedestal, tables."""
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))
    write_pedestal(path, Pedestal.from_mean_and_noise(np.full((40, 60), 100.0), np.full((40, 60), 3.0)))
    write_table(path, "batches", xr.Dataset({"seconds": ("batch", [1.0, 2.0, 3.0]), "total": ((), 6.0)}))
    return path


@pytest.fixture
def complete(running, layout):
    finish_dataset(running, layout, 300, {})
    return running


def add_file(path, name):
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")


@pytest.mark.parametrize("state", ["running", "complete"])
def test_all_that_a_run_writes_may_be_replaced(request, layout, file_digests, state):
    path = request.getfixturevalue(state)
    before = file_digests(path)
    require_replaceable(path)
    assert file_digests(path) == before
    create_dataset(path, layout, {}, overwrite=True)
    assert not (path / "pedestal").exists()


def test_what_a_killed_writer_left_may_be_replaced(running):
    for folder in ("", "signal", "signal/c/0/0", "x/c", "pedestal", "pedestal/s1/c/0", "batches/seconds"):
        (running / folder / "0.0123abcd.partial").write_bytes(b"half")
    shutil.rmtree(running / "y" / "c")
    (running / "x" / "c" / "7" / "0").mkdir(parents=True)
    (running / "y" / "zarr.json").unlink()
    require_replaceable(running)


FOREIGN_FILES = [
    "notes.txt", "my_fits/fit.npz", "signal/notes.txt", "signal/c/notes.txt", "signal/c/0/0/fit.npz", "x/c/0.npz",
    "pedestal/fit.npz", "pedestal/s1/c/fit.npz", "pedestal/zarr.json.bak", "batches/seconds/c/0_old", "c/0",
    "my_array/zarr.json", "my.partial/fit.npz", ".zattrs",
]  # fmt: skip


@pytest.mark.parametrize("state", ["running", "complete"])
def test_a_file_of_someone_elses_keeps_the_dataset_from_being_replaced(request, layout, file_digests, state):
    path = request.getfixturevalue(state)
    for name in FOREIGN_FILES:
        add_file(path, name)
        before = file_digests(path)
        for refused in (lambda: require_replaceable(path), lambda: create_dataset(path, layout, {}, overwrite=True)):
            with pytest.raises(DatasetError, match=f"^{path} is not replaced, for {name} in it is not a part of"):
                refused()
        assert file_digests(path) == before
        (path / name).unlink()
        if name.startswith(("my", "c/")):
            (path / name).parent.rmdir()
    require_replaceable(path)


def test_a_foreign_folder_or_a_link_inside_is_not_removed_either(complete, tmp_path):
    (complete / "my_fits").mkdir()
    with pytest.raises(DatasetError, match="for my_fits/ in it is not"):
        require_replaceable(complete)
    (complete / "my_fits").rmdir()
    (complete / "signal").rename(tmp_path / "signal")
    (complete / "signal").symlink_to(tmp_path / "signal")
    with pytest.raises(DatasetError, match="for signal in it is not"):
        require_replaceable(complete)


@pytest.mark.parametrize("name", ["my_array", "pedestal/my_gain", "batches/my_column"])
def test_an_array_that_was_added_to_a_finished_dataset_is_not_removed(complete, name):
    zarr.create_array(complete, name=name, shape=(3,), dtype="int32")
    with pytest.raises(DatasetError, match=f"for {name}/zarr.json in it is not"):
        require_replaceable(complete)


def test_a_link_to_a_dataset_is_refused_in_one_sentence(complete, layout, tmp_path, file_digests):
    link = tmp_path / "link.zarr"
    link.symlink_to(complete)
    before = file_digests(complete)
    for refused in (lambda: require_replaceable(link), lambda: create_dataset(link, layout, {}, overwrite=True)):
        with pytest.raises(DatasetError, match=f"^{link} is a symbolic link, .* give {complete} itself as output"):
            refused()
    assert file_digests(complete) == before
    require_replaceable(complete)


def test_a_link_that_leads_nowhere_is_refused_and_one_to_an_empty_folder_will_do(tmp_path, layout):
    link = tmp_path / "link.zarr"
    link.symlink_to(tmp_path / "later.zarr")
    with pytest.raises(DatasetError, match=f"^{link} is a symbolic link"):
        create_dataset(link, layout, {})
    (tmp_path / "later.zarr").mkdir()
    require_replaceable(link)
    create_dataset(link, layout, {})
    assert link.readlink() == tmp_path / "later.zarr"


def test_nothing_an_empty_folder_and_what_is_not_ours(tmp_path):
    require_replaceable(tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()
    require_replaceable(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=f"^{tmp_path} exists and is not a photonflow cluster dataset"):
        require_replaceable(tmp_path)
