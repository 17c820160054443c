import numpy as np
import pytest

from cluster_store import ClusterWriter, DatasetError, DatasetLayout, create_dataset, finish_dataset, open_clusters


def test_a_dataset_is_not_written_over_unless_asked(finished, layout, make_rows, write_dataset):
    path, rows = finished
    with pytest.raises(DatasetError, match=rf"^{path} exists \(status complete\); choose another output"):
        create_dataset(path, layout, {})
    np.testing.assert_array_equal(open_clusters(path).x, rows.x)
    create_dataset(path, layout, {}, overwrite=True)
    assert not list(path.glob("x/c/*"))
    with pytest.raises(DatasetError, match="not complete"):
        open_clusters(path)


def test_replacing_a_dataset_leaves_nothing_of_it(finished, layout, tmp_path, file_digests):
    path, _ = finished
    (path / "zarr.0123abcd.partial").write_text("half")
    create_dataset(path, layout, {}, overwrite=True)
    create_dataset(tmp_path / "new.zarr", layout, {})
    assert file_digests(path) == file_digests(tmp_path / "new.zarr")


def test_what_is_not_ours_is_never_removed(tmp_path, layout):
    path = tmp_path / "c.zarr"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="is not a photonflow cluster dataset; choose another output"):
        create_dataset(path, layout, {}, overwrite=True)
    assert [child.name for child in path.iterdir()] == ["notes.txt"]


def test_a_place_below_a_file_is_refused_in_one_sentence(tmp_path, layout):
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match=f"Cannot write to {tmp_path}/file/c.zarr .*choose another output"):
        create_dataset(tmp_path / "file" / "c.zarr", layout, {})


def test_finishing_names_the_chunks_that_are_missing_and_changes_nothing(finished, layout, tmp_path, make_rows):
    path, rows = tmp_path / "d.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 64))
    writer.write_clusters(128, *rows.clusters(128, 300))
    writer.write_frames(0, *rows.frames(0, 20))
    before = (path / "zarr.json").read_bytes(), (path / "x" / "zarr.json").read_bytes()
    with pytest.raises(DatasetError, match=r"lacks 10 of its chunks .*frame_index/c/1"):
        finish_dataset(path, layout, 300, {})
    assert before == ((path / "zarr.json").read_bytes(), (path / "x" / "zarr.json").read_bytes())
    writer.write_clusters(64, *rows.clusters(64, 128))
    writer.write_frames(20, *rows.frames(20, 50))
    finish_dataset(path, layout, 300, {})
    assert open_clusters(path).equals(open_clusters(finished[0]))


def test_finishing_refuses_counts_that_do_not_add_up(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))
    with pytest.raises(DatasetError, match="has 300 clusters by the frames' counts but 299 were found"):
        finish_dataset(path, layout, 299, {})


def test_finishing_again_does_no_harm(finished, layout, file_digests):
    path, _ = finished
    before = file_digests(path)
    finish_dataset(path, layout, 300, {})
    assert file_digests(path) == before


def test_finishing_with_another_layout_is_refused(finished):
    other = DatasetLayout(50, 8, 20, (40, 60), (3, 3), rows_per_chunk=64)
    with pytest.raises(DatasetError, match="laid out for another run"):
        finish_dataset(finished[0], other, 300, {})


def test_what_a_killed_writer_left_behind_is_swept_up(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 10)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 10))
    writer.write_frames(0, *rows.frames(0, 50))
    (path / "signal" / "c" / "0" / "0" / "0.0123abcd.partial").write_bytes(b"half")
    finish_dataset(path, layout, 10, {})
    assert not list(path.rglob("*.partial"))


def test_attributes_come_back_as_json_gives_them(tmp_path, make_rows):
    layout = DatasetLayout(1, 0, 1, (4, 4), (3, 3))
    path, rows = tmp_path / "c.zarr", make_rows(layout, 0)
    create_dataset(
        path, layout, {"title": "Copper foil", "n_sigma": np.float32(2.5), "a": (1, 2), "cluster_size": (3, 3)}
    )
    ClusterWriter(path, layout).write_frames(0, *rows.frames(0, 1))
    finish_dataset(path, layout, 0, {"seconds": 1.5, "a": np.arange(3)})
    attrs = open_clusters(path).attrs
    assert (attrs["title"], attrs["n_sigma"], attrs["a"], attrs["seconds"]) == ("Copper foil", 2.5, [0, 1, 2], 1.5)
    assert attrs["cluster_size"] == [3, 3]


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, [float("inf")]])
def test_attributes_that_json_cannot_hold_are_refused_by_name(tmp_path, layout, value):
    with pytest.raises(ValueError, match="Attribute 'odd'"):
        create_dataset(tmp_path / "c.zarr", layout, {"odd": value})
    assert not (tmp_path / "c.zarr").exists()


@pytest.mark.parametrize("attrs", [{"status": "complete"}, {"format_version": 3}, {"batch_size": 21}])
def test_what_the_dataset_says_of_itself_cannot_be_contradicted(tmp_path, layout, attrs):
    with pytest.raises(ValueError, match="set by the dataset itself"):
        create_dataset(tmp_path / "c.zarr", layout, attrs)
