import numpy as np
import pytest
import xarray as xr

from cluster_store import (
    ClusterWriter,
    DatasetError,
    create_dataset,
    finish_dataset,
    open_clusters,
    read_pedestal,
    write_pedestal,
    write_table,
)
from finder import Pedestal

MOVEMENT = xr.Dataset(
    {"movement": ("batch", np.array([0.1, np.nan, -0.2]), {"units": "1", "long_name": "median movement"})}
)


@pytest.fixture
def running(tmp_path, layout):
    path = tmp_path / "c.zarr"
    create_dataset(path, layout, {})
    return path


@pytest.fixture
def pedestal():
    dark = np.random.default_rng(5).normal(4655, 30, (120, 40, 60)).round().astype(np.uint16)
    return Pedestal.from_dark(dark, n_samples=1000)


def finish(path, layout, make_rows):
    rows = make_rows(layout, 0)
    ClusterWriter(path, layout).write_frames(0, *rows.frames(0, 50))
    finish_dataset(path, layout, 0, {})


def test_the_pedestal_comes_back_bit_for_bit(running, layout, make_rows, pedestal):
    write_pedestal(running, pedestal)
    write_table(running, "pedestal", MOVEMENT)
    for _ in range(2):  # while the run goes on, and after it
        again = read_pedestal(running)
        assert again.n_samples == pedestal.n_samples
        for name in ("x0", "s1", "s2", "trained_variance"):
            got, expected = getattr(again, name), getattr(pedestal, name)
            assert got.dtype == expected.dtype
            assert got.tobytes() == expected.tobytes()
        finish(running, layout, make_rows)


def test_the_groups_open_with_units_and_beside_the_clusters(running, layout, make_rows, pedestal):
    write_pedestal(running, pedestal)
    write_table(running, "pedestal", MOVEMENT)
    write_table(running, "batches", xr.Dataset({"seconds": ("batch", [1.0, 2.0, 3.0]), "worker": ("batch", [0, 1, 0])}))
    finish(running, layout, make_rows)
    group = xr.open_zarr(running, group="pedestal")
    np.testing.assert_array_equal(group["mean"], pedestal.mean)
    np.testing.assert_array_equal(group.noise, pedestal.noise)
    assert (group.noise.dims, group.noise.attrs["units"]) == (("y", "x"), "ADU")
    np.testing.assert_array_equal(group.movement, [0.1, np.nan, -0.2])
    tree = xr.open_datatree(running, engine="zarr")
    assert set(tree.children) == {"pedestal", "batches"}
    np.testing.assert_array_equal(tree["batches"].worker, [0, 1, 0])
    assert "movement" not in open_clusters(running)


def test_tables_merge_and_replace_what_has_the_same_name(running):
    write_table(running, "batches", xr.Dataset({"a": ("batch", [1, 2, 3]), "b": ("batch", [1, 2, 3])}))
    write_table(running, "batches", xr.Dataset({"b": ("batch", [4.5, 5.5, 6.5])}, attrs={"workers": ["one", "two"]}))
    group = xr.open_zarr(running, group="batches", consolidated=False)
    np.testing.assert_array_equal(group.a, [1, 2, 3])
    np.testing.assert_array_equal(group.b, [4.5, 5.5, 6.5])
    assert group.attrs == {"workers": ["one", "two"]}


def test_a_table_of_no_batches_and_a_plane_of_many_chunks_are_kept(running):
    write_table(running, "batches", xr.Dataset({"a": ("batch", np.zeros(0))}))
    assert xr.open_zarr(running, group="batches", consolidated=False).sizes["batch"] == 0
    plane = np.random.default_rng(2).normal(size=(1100, 1024))
    write_table(running, "pedestal", xr.Dataset({"plane": (("y", "x"), plane)}))
    got = xr.open_zarr(running, group="pedestal", consolidated=False).plane
    assert len(got.chunks[0]) == 2
    np.testing.assert_array_equal(got, plane)


def test_a_dimension_of_two_sizes_is_refused(running):
    write_table(running, "batches", xr.Dataset({"a": ("batch", [1, 2, 3])}))
    with pytest.raises(ValueError, match="batch has size 2 here and 3 in 'a'"):
        write_table(running, "batches", xr.Dataset({"b": ("batch", [1, 2])}))


def test_only_numbers_in_our_groups_of_an_unfinished_dataset(running, layout, make_rows, tmp_path):
    with pytest.raises(TypeError, match="name is"):
        write_table(running, "batches", xr.Dataset({"name": ("batch", ["one"])}))
    with pytest.raises(ValueError, match="'others' is no group"):
        write_table(running, "others", MOVEMENT)
    with pytest.raises(DatasetError, match="is absent"):
        write_table(tmp_path / "none.zarr", "batches", MOVEMENT)
    finish(running, layout, make_rows)
    with pytest.raises(DatasetError, match=f"^{running} is complete; tables are written while the run goes on"):
        write_table(running, "batches", MOVEMENT)


def test_a_dataset_without_a_pedestal_says_so(running, tmp_path):
    with pytest.raises(DatasetError, match=f"^{running} holds no pedestal"):
        read_pedestal(running)
    with pytest.raises(DatasetError, match="is absent"):
        read_pedestal(tmp_path / "none.zarr")
