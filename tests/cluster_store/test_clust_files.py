"""`.clust` files of others: in any order, damaged, of another layout than was said, or no such files at all."""

import numpy as np
import pytest

from cluster_store import DatasetError, DatasetLayout, open_clusters
from cluster_store.formats import ClustLayout, export_clusters, import_clusters


@pytest.fixture
def layout():
    return DatasetLayout(8, 0, 20, (40, 60), (3, 3), rows_per_chunk=64)


def write_clust(path, layout=((3, 3), "int32"), n=(2, 0, 3, 1), seed=1, order="little"):
    """A file with frames of `n` clusters, written value by value; returns its windows."""
    rng = np.random.default_rng(seed)
    size, dtype = layout
    content, windows = b"", []
    value = np.dtype(dtype).newbyteorder("<" if order == "little" else ">")
    for number, clusters in enumerate(n):
        content += (100 + number).to_bytes(4, order) + clusters.to_bytes(4, order)
        for _ in range(clusters):
            window = rng.normal(300, 200, size).astype(value)
            windows.append(window)
            x, y = rng.integers(0, 60), rng.integers(0, 40)
            content += int(x).to_bytes(2, order) + int(y).to_bytes(2, order)
            content += bytes(4 if dtype == "float64" else 0) + window.tobytes()
    path.write_bytes(content)
    return np.array(windows)


def test_clusters_in_any_order_within_a_frame_are_sorted_on_import(tmp_path, layout, import_back):
    record = ClustLayout((3, 3), "int32").record
    clusters = np.zeros(3, record)
    clusters["y"], clusters["x"] = [5, 4, 4], [1, 9, 2]
    clusters["signal"] = np.arange(3)[:, None, None]
    header = np.array([(4, 3)], "<i4,<u4")
    (tmp_path / "c.clust").write_bytes(header.tobytes() + clusters.tobytes())
    import_back(tmp_path / "c.clust", tmp_path / "c.zarr", layout)
    back = open_clusters(tmp_path / "c.zarr")
    assert (back.y.values.tolist(), back.x.values.tolist()) == ([4, 4, 5], [2, 9, 1])
    assert back.signal[:, 1, 1].values.tolist() == [2, 1, 0]


class TestDamagedClustFiles:
    """What is not a `.clust` file of this layout is told by the byte at which that shows, and nothing is written."""

    @pytest.fixture
    def clust(self, tmp_path, layout, make_rows, write_dataset):
        write_dataset(tmp_path / "c.zarr", layout, make_rows(layout, 60))
        export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust")
        return tmp_path / "c.clust"

    @pytest.fixture
    def refusal(self, import_back):
        def refused_with(clust, layout, dtype="int32"):
            before = sorted(entry.name for entry in clust.parent.iterdir())
            with pytest.raises(DatasetError) as refused:
                import_back(clust, clust.with_name("back.zarr"), layout, dtype)
            assert sorted(entry.name for entry in clust.parent.iterdir()) == before
            return str(refused.value).removeprefix(f"{clust}, ")

        return refused_with

    def test_cut_off_within_a_cluster(self, clust, layout, refusal):
        content = clust.read_bytes()
        clust.write_bytes(content + (77).to_bytes(4, "little") + (2).to_bytes(4, "little") + bytes(79))
        assert refusal(clust, layout).startswith(
            f"byte {len(content)}: frame 77 has 2 clusters, and the file ends within them; it is cut off there, or not"
        )

    def test_cut_off_within_a_header(self, clust, layout, refusal):
        content = clust.read_bytes()
        clust.write_bytes(content + bytes(5))
        assert refusal(clust, layout).startswith(f"byte {len(content)}: the file ends within a frame's first 8")

    def test_another_type_of_signal(self, clust, layout, refusal):
        told = refusal(clust, layout, "float64")
        assert "it is not of 3x3 float64 windows on 40x60 pixels, and whole as one of 3x3 int32 or float32" in told

    def test_a_cluster_outside_the_detector(self, clust, layout, refusal):
        content = bytearray(clust.read_bytes())
        first = int.from_bytes(content[4:8], "little")
        assert first > 2
        content[8 + 40 : 8 + 42] = (60).to_bytes(2, "little")
        clust.write_bytes(content)
        assert refusal(clust, layout).startswith("byte 48: a cluster lies at x = 60, y = ")

    def test_more_clusters_than_pixels(self, clust, layout, refusal):
        clust.write_bytes((0).to_bytes(4, "little") + (10**9).to_bytes(4, "little") + bytes(100))
        assert refusal(clust, layout).startswith("byte 0: frame 0 has 1000000000 clusters, more than")

    def test_a_negative_frame_number(self, clust, layout, refusal):
        clust.write_bytes(b"\xff" * 8)
        assert refusal(clust, layout).startswith("byte 0: the frame number is -1;")

    def test_no_file(self, clust, layout, refusal):
        clust.unlink()
        assert "cannot be read" in refusal(clust, layout)


class TestAnotherLayout:
    """A file does not say what it holds; where that can be told from its length and values, it is."""

    @pytest.mark.parametrize(
        ("written", "said"),
        [
            (((5, 5), "int32"), "5x5 int32 or float32: give --cluster-size and --dtype so"),
            (((3, 3), "int16"), "3x3 int16: give"),
            (((3, 3), "float64"), "3x3 float64"),
        ],
    )
    def test_the_windows_of_the_file_come_before_damage(self, tmp_path, layout, written, said, import_back):
        write_clust(tmp_path / "a.clust", written, n=(3, 2, 4, 1))
        with pytest.raises(DatasetError, match=r"byte .*whole as one of") as refused:
            import_back(tmp_path / "a.clust", tmp_path / "a.zarr", layout)
        assert said in str(refused.value)
        assert "damaged" not in str(refused.value)

    @pytest.mark.parametrize(("written", "said"), [("int32", "float32"), ("float32", "int32")])
    def test_the_other_type_of_four_bytes_is_told_by_its_values(self, tmp_path, layout, written, said, import_back):
        write_clust(tmp_path / "a.clust", ((3, 3), written))
        with pytest.raises(DatasetError, match=f"its values are those of {written}; give --dtype {written}"):
            import_back(tmp_path / "a.clust", tmp_path / "a.zarr", layout, said)
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.clust"]
        import_back(tmp_path / "a.clust", tmp_path / "a.zarr", layout, written)

    def test_windows_of_zeros_are_of_any_type(self, tmp_path, layout, import_back):
        windows = np.zeros((1, 3, 3), "<i4")
        (tmp_path / "a.clust").write_bytes(np.array([7, 1], "<u4").tobytes() + bytes(4) + windows.tobytes())
        for dtype in ("int32", "float32"):
            import_back(tmp_path / "a.clust", tmp_path / f"{dtype}.zarr", layout, dtype)
            assert not open_clusters(tmp_path / f"{dtype}.zarr").signal.any()

    def test_a_big_endian_file_is_called_that(self, tmp_path, layout, import_back):
        write_clust(tmp_path / "a.clust", order="big")
        with pytest.raises(DatasetError, match="its numbers are big-endian"):
            import_back(tmp_path / "a.clust", tmp_path / "a.zarr", layout)

    def test_a_detector_that_is_too_small_is_no_damage(self, tmp_path, import_back):
        write_clust(tmp_path / "a.clust", n=(20, 20))
        swapped = DatasetLayout(2, 0, 20, (20, 60), (3, 3))
        with pytest.raises(
            DatasetError, match=r"outside a detector of 20x60; it is whole .* --frame-shape is too small"
        ):
            import_back(tmp_path / "a.clust", tmp_path / "a.zarr", swapped)

    def test_a_signal_beyond_float32_is_not_made_infinite(self, tmp_path, layout, import_back):
        windows = np.full((1, 3, 3), 1e300)
        (tmp_path / "a.clust").write_bytes(np.array([7, 1], "<u4").tobytes() + bytes(8) + windows.tobytes())
        with pytest.raises(DatasetError, match=r"1e\+300 ADU does not fit the float32"):
            import_back(tmp_path / "a.clust", tmp_path / "a.zarr", layout, "float64")
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.clust"]

    def test_an_empty_file_a_folder_and_windows_that_no_dataset_has_are_refused(self, tmp_path, layout):
        (tmp_path / "empty.clust").write_bytes(b"")
        (tmp_path / "folder.clust").mkdir()
        write_clust(tmp_path / "a.clust")
        for name, size, message in (
            ("empty.clust", (3, 3), "is empty"),
            ("folder.clust", (3, 3), "is no file"),
            ("a.clust", (4, 4), "each odd"),
            ("a.clust", (-3, 3), "sides of 1 to 999"),
            ("a.clust", (3, 3), "no position beyond 65535"),
        ):
            shape = (10**11, 9) if "beyond" in message else (9, 9)
            with pytest.raises(ValueError, match=message):
                import_clusters(
                    tmp_path / name,
                    tmp_path / "a.zarr",
                    layout=ClustLayout(size, "int32"),
                    frame_shape=shape,
                    attrs={},
                )
        assert not (tmp_path / "a.zarr").exists()
