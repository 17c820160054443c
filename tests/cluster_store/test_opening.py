import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr

from cluster_store import DatasetError, DatasetLayout, create_dataset, dataset_status, open_clusters


def assert_holds(ds, rows):
    for name in ("frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status"):
        expected = getattr(rows, name)
        assert ds[name].dtype == expected.dtype
        np.testing.assert_array_equal(ds[name].values, expected)
    assert ds.n_clusters.sum() == ds.sizes["cluster"]


def test_xarray_opens_a_finished_dataset_and_gives_every_array_back(finished):
    path, rows = finished
    ds = xr.open_zarr(path)
    assert set(ds.dims) == {"cluster", "frame", "cluster_y", "cluster_x"}
    assert ds.signal.dims == ("cluster", "cluster_y", "cluster_x")
    assert_holds(ds, rows)


def test_a_bare_interpreter_opens_it_without_a_warning_and_without_our_packages(finished):
    path, _ = finished
    program = (
        "import sys, xarray as xr\n"
        f"ds = xr.open_zarr({str(path)!r}); tree = xr.open_datatree({str(path)!r}, engine='zarr')\n"
        "assert ds.sizes['cluster'] == 300 and tree.sizes['cluster'] == 300\n"
        "assert int(ds.signal.sum()) == int(tree.signal.sum())\n"
        "assert not {'cluster_store', 'finder'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("n_clusters", [0, 1, 63, 64, 65, 128])
@pytest.mark.parametrize("signal_dtype", ["int32", "float32"])
def test_any_number_of_clusters_opens_without_a_warning(tmp_path, make_rows, write_dataset, n_clusters, signal_dtype):
    layout = DatasetLayout(5, 0, 2, (8, 9), (3, 5), signal_dtype, rows_per_chunk=64)
    rows = make_rows(layout, n_clusters)
    write_dataset(tmp_path / "c.zarr", layout, rows)
    assert_holds(open_clusters(tmp_path / "c.zarr"), rows)
    assert xr.open_datatree(tmp_path / "c.zarr", engine="zarr").sizes["cluster"] == n_clusters


@pytest.mark.parametrize("n_frames", [0, 1, 4])
def test_a_detector_of_one_pixel_and_a_run_without_frames_open(tmp_path, make_rows, write_dataset, n_frames):
    layout = DatasetLayout(n_frames, 0, 4, (1, 1), (3, 3))
    rows = make_rows(layout, 0)
    write_dataset(tmp_path / "c.zarr", layout, rows)
    ds = open_clusters(tmp_path / "c.zarr")
    assert (ds.sizes["frame"], ds.sizes["cluster"]) == (n_frames, 0)
    assert_holds(ds, rows)


def test_positions_beyond_16_bits_are_kept(tmp_path, make_rows, write_dataset):
    layout = DatasetLayout(3, 0, 4, (2, 70_000), (3, 3), rows_per_chunk=8)
    rows = make_rows(layout, 20)
    rows.x[-1] = 69_999
    write_dataset(tmp_path / "c.zarr", layout, rows)
    ds = open_clusters(tmp_path / "c.zarr")
    assert ds.x.dtype == np.uint32
    assert_holds(ds, rows)


def test_the_dataset_says_what_its_numbers_mean(finished):
    ds = xr.open_zarr(finished[0])
    assert ds.attrs["Conventions"] == "CF-1.11"
    assert (ds.attrs["status"], ds.attrs["n_sigma"], ds.attrs["first_frame"]) == ("complete", 5.0, 7)
    assert ds.n_clusters.attrs["sample_dimension"] == "cluster"
    assert ds.signal.attrs["units"] == "ADU"
    assert ds.frame_status.attrs["flag_values"] == [0, 1, 2]
    assert ds.frame_status.attrs["flag_meanings"] == "ok unreadable failed"
    assert all("long_name" in variable.attrs for variable in ds.variables.values())
    np.testing.assert_array_equal(ds.cluster_y, [-1, 0, 1])
    np.testing.assert_array_equal(ds.cluster_x, [-1, 0, 1])
    assert set(ds.indexes) == {"cluster_y", "cluster_x"}


def test_every_array_names_its_dimensions_and_ends_its_codecs_with_a_checksum(finished):
    for name, array in zarr.open_group(finished[0], mode="r").arrays():
        written = array.metadata.to_dict()
        assert None not in written["dimension_names"], name
        assert written["codecs"][-1]["name"] == "crc32c", name


def test_a_flipped_bit_is_an_error_and_not_a_wrong_signal(finished):
    path, _ = finished
    chunk = path / "signal" / "c" / "0" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="checksum"):
        xr.open_zarr(path).signal.values  # noqa: B018


def test_open_clusters_refuses_a_run_that_is_not_complete(tmp_path, layout):
    path = tmp_path / "c.zarr"
    create_dataset(path, layout, {})
    assert dataset_status(path) == "running"
    with pytest.raises(DatasetError, match=f"^{path} is not complete: .*run `process` again.$"):
        open_clusters(path)


def test_open_clusters_refuses_what_is_not_there(tmp_path):
    path = tmp_path / "c.zarr"
    assert dataset_status(path) == "absent"
    with pytest.raises(DatasetError, match=f"no cluster dataset at {path}; check the path"):
        open_clusters(path)
    assert not path.exists()


def _someone_elses_group(path):
    zarr.create_group(path, attributes={"status": "complete"})


def _an_array(path):
    zarr.create_array(path, shape=(3,), dtype="int32")


def _a_folder_with_a_file(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def _a_file(path):
    path.write_text("mine")


def _broken_metadata(path):
    path.mkdir()
    (path / "zarr.json").write_text("{")


FOREIGN = [_someone_elses_group, _an_array, _a_folder_with_a_file, _a_file, _broken_metadata]


@pytest.mark.parametrize("make", FOREIGN)
def test_open_clusters_refuses_what_is_not_ours(tmp_path, make):
    path = tmp_path / "c.zarr"
    make(path)
    assert dataset_status(path) == "foreign"
    with pytest.raises(DatasetError, match=f"^{path} is not a photonflow cluster dataset; give the path"):
        open_clusters(path)


def test_open_clusters_refuses_a_later_format(finished):
    path, _ = finished
    zarr.open_group(path, mode="r+").attrs["format_version"] = 99
    with pytest.raises(DatasetError, match=f"^{path} has format version 99"):
        open_clusters(path)


def test_an_empty_folder_counts_as_absent(tmp_path):
    assert dataset_status(tmp_path) == "absent"


def test_nothing_foreign_lies_in_the_store(finished):
    path, _ = finished
    names = {file.name for file in path.rglob("*") if file.is_file()}
    assert {name for name in names if not name.isdigit()} == {"zarr.json"}
    assert {child.name for child in path.iterdir()} == {
        "zarr.json", "frame_index", "x", "y", "signal", "n_clusters", "frame_number", "frame_status", "cluster_y",
        "cluster_x",
    }  # fmt: skip
    json.loads((path / "zarr.json").read_text(), parse_constant=pytest.fail)
