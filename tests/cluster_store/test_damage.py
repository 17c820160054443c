"""Stores in which something is missing or broken: one sentence with the path, never zeros or Zarr's own words."""

import json
import re

import numpy as np
import pytest

from cluster_store import (
    ClusterWriter,
    DatasetError,
    create_dataset,
    dataset_status,
    finish_dataset,
    open_clusters,
    read_layout,
    read_pedestal,
    write_pedestal,
)
from finder import Pedestal

# What is left of a zarr.json: cut off, empty, or JSON of another kind.
BROKEN = ["{", "", "[]", "null", "3", '"zarr"', "{}", '{"zarr_format": 3, "node_type": "array", "attributes": {}}']


@pytest.fixture
def with_pedestal(tmp_path, layout):
    path = tmp_path / "c.zarr"
    create_dataset(path, layout, {})
    write_pedestal(path, Pedestal.from_mean_and_noise(np.full((40, 60), 100.0), np.full((40, 60), 3.0)))
    return path


@pytest.mark.parametrize("name", ["x0", "s1", "s2", "trained_variance"])
def test_a_pedestal_that_lacks_a_chunk_is_refused_and_not_read_as_zeros(with_pedestal, name):
    (with_pedestal / "pedestal" / name / "c" / "0" / "0").unlink()
    with pytest.raises(DatasetError, match=f"^{with_pedestal} lacks the chunk pedestal/{name}/c/0/0 .* array '{name}'"):
        read_pedestal(with_pedestal)


def test_a_pedestal_that_lacks_its_last_chunk_of_several_is_refused(tmp_path, layout):
    path, shape = tmp_path / "c.zarr", (1100, 1024)
    create_dataset(path, layout, {})
    write_pedestal(path, Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 3.0)))
    assert read_pedestal(path).shape == shape
    (path / "pedestal" / "x0" / "c" / "1" / "0").unlink()
    with pytest.raises(DatasetError, match="lacks the chunk pedestal/x0/c/1/0"):
        read_pedestal(path)


@pytest.mark.parametrize("place", ["pedestal/s1", "pedestal"])
def test_damaged_metadata_of_a_pedestal_is_refused_by_path(with_pedestal, place):
    for broken in BROKEN:
        (with_pedestal / place / "zarr.json").write_text(broken)
        with pytest.raises(DatasetError, match=rf"^{with_pedestal}(/{place} is damaged| holds no pedestal)"):
            read_pedestal(with_pedestal)


@pytest.mark.parametrize(
    ("place", "pattern", "change"),
    [
        ("pedestal/s1", '"float32"', '"int32"'),
        ("pedestal/s1", '"shape": [^]]*]', '"shape": [4]'),
        ("pedestal/s1", '"crc32c"', '"crc33"'),
        ("pedestal", '"n_samples": 1000', '"n_samples": "many"'),
    ],
)
def test_a_pedestal_whose_metadata_says_something_else_is_refused(with_pedestal, place, pattern, change):
    file = with_pedestal / place / "zarr.json"
    changed, n_changes = re.subn(pattern, change, file.read_text())
    assert n_changes == 1
    file.write_text(changed)
    with pytest.raises(DatasetError, match=f"^{with_pedestal}/{place} is damaged"):
        read_pedestal(with_pedestal)


def test_a_flipped_bit_in_a_pedestal_is_refused_by_path(with_pedestal):
    chunk = with_pedestal / "pedestal" / "s2" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(DatasetError, match=f"^{with_pedestal}/pedestal/s2 is damaged .*checksum"):
        read_pedestal(with_pedestal)


def test_a_dataset_whose_own_metadata_is_damaged_counts_as_foreign(finished):
    path, _ = finished
    for broken in BROKEN:
        (path / "zarr.json").write_text(broken)
        assert dataset_status(path) == "foreign"
        with pytest.raises(DatasetError, match=f"^{path} is foreign"):
            read_layout(path)
        with pytest.raises(DatasetError, match=f"^{path} is not a photonflow cluster dataset"):
            open_clusters(path)


def test_damaged_metadata_of_an_array_is_refused_by_path(finished, layout, make_rows):
    path, _ = finished
    rows = make_rows(layout, 64)
    for broken in BROKEN:
        (path / "frame_index" / "zarr.json").write_text(broken)
        assert dataset_status(path) == "complete"
        with pytest.raises(DatasetError, match=rf"^{path} is damaged \(.*\); copy the dataset again"):
            read_layout(path)
        with pytest.raises(DatasetError, match=f"^{path} is damaged"):
            finish_dataset(path, layout, 300, {})
        with pytest.raises(DatasetError, match=f"^{path}/frame_index is damaged"):
            ClusterWriter(path, layout).write_clusters(0, *rows.clusters(0, 64))


def test_a_layout_that_is_incomplete_or_makes_no_sense_is_refused_by_path(finished):
    path, _ = finished
    whole = json.loads((path / "zarr.json").read_text())
    for name, value in (
        ("n_frames", None),
        ("frame_shape", 3),
        ("cluster_size", [2, 3]),
        ("cluster_size", [3.0, 3.0]),
        ("n_frames", 20.0),
        ("batch_size", True),
        ("signal_dtype", "int8"),
    ):
        changed = whole | {"attributes": whole["attributes"] | {name: value}}
        (path / "zarr.json").write_text(json.dumps(changed))
        with pytest.raises(DatasetError, match=f"^{path} is damaged"):
            read_layout(path)


def test_damaged_consolidated_metadata_is_refused_by_path(finished):
    path, _ = finished
    root = json.loads((path / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"]["x"] = {"shape": 3}
    (path / "zarr.json").write_text(json.dumps(root))
    assert dataset_status(path) == "complete"
    with pytest.raises(DatasetError, match=f"^{path}/x is damaged .*contradicts its shape"):
        open_clusters(path)
