"""Clusters in other people's formats: the same values, read by the libraries that people read them with."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from cluster_store import DatasetError, DatasetLayout, create_dataset, finish_dataset, open_clusters
from cluster_store.formats import ClustLayout, export_clusters
from cluster_store.formats import stored_clusters as stored_clusters_module

COLUMNS = ("frame_index", "y", "x", "signal")


def in_order(rows, layout, first_number=1000):
    """The same rows as a finder gives them: sorted within each frame; some frames without clusters."""
    frame = rows.frame_index - rows.frame_index % 3
    order = np.lexsort((rows.x, rows.y, frame))
    return replace(
        rows,
        **{name: getattr(rows, name)[order] for name in ("y", "x", "signal")},
        frame_index=frame[order],
        n_clusters=np.bincount(frame, minlength=layout.n_frames).astype(np.uint32),
        frame_number=np.arange(first_number, first_number + layout.n_frames, dtype=np.uint64),
    )


@pytest.fixture(params=["3x3 int32", "5x5 float32", "9x9 int32", "nothing found"])
def dataset(request, tmp_path, make_rows, write_dataset):
    """A dataset of 3 batches, the last one shorter, and what is in it."""
    nothing = request.param == "nothing found"
    size, dtype = ("3x3", "int32") if nothing else request.param.split()
    window = tuple(map(int, size.split("x")))
    layout = DatasetLayout(50, 7, 20, (40, 60), window, signal_dtype=dtype, rows_per_chunk=64)
    rows = in_order(make_rows(layout, 0 if nothing else 300), layout)
    path = tmp_path / "clusters.zarr"
    write_dataset(path, layout, rows)
    return path, layout, rows


@pytest.fixture
def small_blocks(monkeypatch):
    """So few clusters and frames at once that every block ends somewhere within a batch."""
    monkeypatch.setattr(stored_clusters_module, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(stored_clusters_module, "FRAMES_AT_ONCE", 9)


def test_a_clust_file_gives_back_the_dataset_it_was_written_from(dataset, tmp_path, small_blocks, import_back):
    path, layout, rows = dataset
    exported = export_clusters(path, tmp_path / "c.clust")
    assert (exported.n_frames, exported.n_clusters) == (50, len(rows.y))
    import_back(tmp_path / "c.clust", tmp_path / "back.zarr", layout)
    first, back = xr.open_zarr(path), open_clusters(tmp_path / "back.zarr")
    for name in (*COLUMNS, "n_clusters", "frame_number", "frame_status"):
        xr.testing.assert_identical(first[name], back[name])
        assert first[name].dtype == back[name].dtype


def test_a_clust_file_is_what_the_format_says_byte_by_byte(dataset, tmp_path):
    path, _, rows = dataset
    export_clusters(path, tmp_path / "c.clust")
    expected, row = b"", 0
    for number, n in zip(rows.frame_number.tolist(), rows.n_clusters.tolist(), strict=True):
        expected += number.to_bytes(4, "little") + n.to_bytes(4, "little")
        for k in range(row, row + n):
            expected += rows.x[k].tobytes() + rows.y[k].tobytes() + rows.signal[k].tobytes()
        row += n
    assert (tmp_path / "c.clust").read_bytes() == expected


@pytest.mark.parametrize(
    ("size", "dtype", "record_bytes"),
    [
        ((3, 3), "int32", 40),
        ((5, 5), "float32", 104),
        ((9, 9), "int32", 328),
        ((3, 3), "int16", 22),
        ((3, 3), "float64", 80),
    ],
)
def test_records_have_the_length_that_others_expect(size, dtype, record_bytes):
    assert ClustLayout(size, dtype).record.itemsize == record_bytes


@pytest.mark.parametrize(("stored", "dtype"), [("int32", "int16"), ("int32", "float64"), ("float32", "float64")])
def test_other_types_of_signal_go_there_and_back(tmp_path, make_rows, write_dataset, stored, dtype, import_back):
    layout = DatasetLayout(50, 0, 20, (40, 60), (3, 3), signal_dtype=stored, rows_per_chunk=64)
    rows = in_order(make_rows(layout, 200), layout)
    write_dataset(tmp_path / "c.zarr", layout, rows)
    export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", dtype=dtype)
    import_back(tmp_path / "c.clust", tmp_path / "back.zarr", layout, dtype)
    np.testing.assert_array_equal(xr.open_zarr(tmp_path / "back.zarr").signal, rows.signal)


def test_a_signal_that_the_type_can_not_hold_is_refused(tmp_path, layout, make_rows, write_dataset):
    rows = in_order(make_rows(layout, 20), layout)
    rows.signal[3, 1, 1] = 40_000
    write_dataset(tmp_path / "c.zarr", layout, rows)
    with pytest.raises(DatasetError, match="A signal of 40000 ADU does not fit int16"):
        export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", dtype="int16")
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.zarr"]


AARE_TYPES = [((3, 3), "int32"), ((3, 3), "int16"), ((3, 3), "float64"), ((5, 5), "float32"), ((9, 9), "int32")]


@pytest.fixture
def for_aare(tmp_path, make_rows, write_dataset):
    def make(size, dtype):
        stored = "float32" if dtype.startswith("float") else "int32"
        layout = DatasetLayout(50, 0, 20, (40, 60), size, signal_dtype=stored, rows_per_chunk=64)
        rows = in_order(make_rows(layout, 120), layout)
        write_dataset(tmp_path / "c.zarr", layout, rows)
        return layout, rows

    return make


@pytest.mark.parametrize(("size", "dtype"), AARE_TYPES)
def test_aare_reads_what_we_write(tmp_path, for_aare, size, dtype):
    aare = pytest.importorskip("aare")
    _, rows = for_aare(size, dtype)
    export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", dtype=dtype)
    row = 0
    with aare.ClusterFile(str(tmp_path / "c.clust"), cluster_size=size, dtype=np.dtype(dtype)) as file:
        for number, n in zip(rows.frame_number, rows.n_clusters, strict=True):
            clusters = file.read_frame()
            read = np.array(clusters, copy=True)
            assert (clusters.frame_number, len(read)) == (number, n)
            for theirs, ours in (("x", "x"), ("y", "y"), ("data", "signal")):
                np.testing.assert_array_equal(read[theirs], getattr(rows, ours)[row : row + n])
            row += int(n)
    assert row == len(rows.y)


@pytest.mark.parametrize(("size", "dtype"), AARE_TYPES)
def test_we_read_what_aare_writes(tmp_path, for_aare, size, dtype, import_back):
    aare = pytest.importorskip("aare")
    layout, rows = for_aare(size, dtype)
    row = 0
    with aare.ClusterFile(str(tmp_path / "a.clust"), cluster_size=size, dtype=np.dtype(dtype), mode="w") as file:
        for number, n in zip(rows.frame_number, rows.n_clusters, strict=True):
            clusters = aare.ClusterVector(size, np.dtype(dtype))
            clusters.frame_number = int(number)
            for k in range(row, row + int(n)):
                window = rows.signal[k].astype(dtype).reshape(-1)
                clusters.push_back(aare.Cluster(int(rows.x[k]), int(rows.y[k]), window, size, np.dtype(dtype)))
            file.write_frame(clusters)
            row += int(n)
    import_back(tmp_path / "a.clust", tmp_path / "back.zarr", layout, dtype)
    back = open_clusters(tmp_path / "back.zarr")
    for name in (*COLUMNS, "n_clusters", "frame_number"):
        np.testing.assert_array_equal(back[name], getattr(rows, name))


def test_frame_numbers_beyond_int32_are_refused_where_they_do_not_fit(tmp_path, layout, make_rows, write_dataset):
    write_dataset(tmp_path / "c.zarr", layout, in_order(make_rows(layout, 60), layout, first_number=2**31 - 10))
    with pytest.raises(DatasetError, match=r"frame number 2147483687.*int32"):
        export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust")
    # The first frames have numbers that fit.
    assert export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", frames=(None, 17)).n_frames == 10
    assert export_clusters(tmp_path / "c.zarr", tmp_path / "c.parquet").n_frames == 50


def test_parquet_is_what_arrow_and_pandas_read(dataset, tmp_path, small_blocks):
    pq, pd = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pandas")
    path, layout, rows = dataset
    export_clusters(path, tmp_path / "c.parquet")
    assert sorted(entry.name for entry in (tmp_path / "c.parquet").iterdir()) == [f"batch=0000{k}" for k in range(3)]
    table = pq.read_table(tmp_path / "c.parquet")
    for name in ("frame_index", "y", "x"):
        np.testing.assert_array_equal(table[name].to_numpy(), getattr(rows, name))
        assert table[name].to_numpy().dtype == getattr(rows, name).dtype
    np.testing.assert_array_equal(table["frame_number"].to_numpy(), np.repeat(rows.frame_number, rows.n_clusters))
    signal = table["signal"].combine_chunks().flatten().to_numpy().reshape(-1, *layout.cluster_size)
    np.testing.assert_array_equal(signal, rows.signal)
    assert signal.dtype == layout.signal_dtype
    field = table.schema.field("signal")
    assert field.metadata[b"units"] == b"ADU"
    assert tuple(json.loads(field.metadata[b"shape"])) == layout.cluster_size
    assert json.loads(table.schema.metadata[b"photonflow"])["n_sigma"] == 5.0
    second = pd.read_parquet(tmp_path / "c.parquet", filters=[("batch", "==", 1)])
    assert len(second) == ((rows.frame_index >= 20) & (rows.frame_index < 40)).sum()


def test_parquet_is_what_awkward_reads(dataset, tmp_path):
    ak = pytest.importorskip("awkward")
    path, layout, rows = dataset
    export_clusters(path, tmp_path / "c.parquet")
    clusters = ak.from_parquet(tmp_path / "c.parquet")
    np.testing.assert_array_equal(ak.to_numpy(clusters.x), rows.x)
    signal = ak.to_numpy(clusters.signal).reshape(-1, *layout.cluster_size)
    np.testing.assert_array_equal(signal, rows.signal)


def test_hdf5_is_what_nexus_says_of_event_data(dataset, tmp_path, small_blocks):
    h5py = pytest.importorskip("h5py")
    path, _, rows = dataset
    export_clusters(path, tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as file:
        entry = file[file.attrs["default"]]
        events = entry[entry.attrs["default"]]
        assert [group.attrs["NX_class"] for group in (file, entry, events)] == ["NXroot", "NXentry", "NXevent_data"]
        for name in (*COLUMNS, "n_clusters", "frame_number", "frame_status"):
            np.testing.assert_array_equal(events[name], getattr(rows, name))
            assert events[name].dtype == getattr(rows, name).dtype
        np.testing.assert_array_equal(events["event_id"], rows.y.astype(int) * 60 + rows.x)
        np.testing.assert_array_equal(events["event_index"], np.cumsum(rows.n_clusters) - rows.n_clusters)
        assert events["signal"].attrs["units"] == "ADU"
        assert events["total_counts"][()] == len(rows.y)
        assert file["entry/parameters"].attrs["n_sigma"] == 5.0


@pytest.mark.parametrize("frames", [(7, 57), (20, 50), (30, 30), (46, None)])
def test_a_range_of_frames_is_the_archives(tmp_path, layout, make_rows, write_dataset, frames, import_back):
    pq, h5py = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("h5py")
    rows = in_order(make_rows(layout, 300), layout)
    write_dataset(tmp_path / "c.zarr", layout, rows)
    first, stop = (side if side is None else side - layout.first_frame for side in frames)
    inside = np.isin(rows.frame_index, np.arange(50)[first:stop])
    for name in ("c.h5", "c.parquet"):
        assert export_clusters(tmp_path / "c.zarr", tmp_path / name, frames=frames).n_clusters == inside.sum()
    np.testing.assert_array_equal(pq.read_table(tmp_path / "c.parquet")["x"], rows.x[inside])
    with h5py.File(tmp_path / "c.h5") as file:
        events = file["entry/clusters"]
        np.testing.assert_array_equal(events["signal"], rows.signal[inside])
        np.testing.assert_array_equal(events["frame_number"], rows.frame_number[first:stop])
        # Within the file, the two ways from a cluster to its frame agree.
        np.testing.assert_array_equal(
            events["frame_index"], np.repeat(np.arange(len(events["n_clusters"])), events["n_clusters"])
        )
    if frames == (30, 30):
        with pytest.raises(DatasetError, match=r"c\.clust would be an empty file"):
            export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", frames=frames)
    else:
        assert export_clusters(tmp_path / "c.zarr", tmp_path / "c.clust", frames=frames).n_clusters == inside.sum()
        import_back(tmp_path / "c.clust", tmp_path / "back.zarr", layout)
        np.testing.assert_array_equal(open_clusters(tmp_path / "back.zarr").y, rows.y[inside])


@pytest.mark.parametrize("frames", [(6, 57), (0, None), (7, 58), (30, 20)])
def test_frames_that_are_not_there_are_refused(finished, tmp_path, frames):
    with pytest.raises(DatasetError, match="holds the archive's frames 7:57"):
        export_clusters(finished[0], tmp_path / "c.clust", frames=frames)


@pytest.mark.parametrize("name", ["c.clust", "c.h5", "c.parquet"])
class TestPlaces:
    """Where an export goes."""

    def test_an_earlier_export_is_replaced_only_if_told(self, finished, tmp_path, name):
        place = tmp_path / name
        export_clusters(finished[0], place, frames=(7, 30))
        with pytest.raises(DatasetError, match="--overwrite"):
            export_clusters(finished[0], place)
        export_clusters(finished[0], place, overwrite=True)
        export_clusters(finished[0], tmp_path / f"again{place.suffix}")
        assert content_of(place) == content_of(tmp_path / f"again{place.suffix}")
        assert len(list(tmp_path.iterdir())) == 3

    def test_what_is_not_ours_stays(self, finished, tmp_path, name):
        for made in ("text", "zeros", "folder", "nothing", "link"):
            place = tmp_path / made / name
            place.parent.mkdir()
            if made == "folder":
                place.mkdir()
                (place / "thesis.txt").write_text("mine")
            elif made == "link":
                (tmp_path / "elsewhere").mkdir()
                place.symlink_to(tmp_path / "elsewhere")
            else:
                place.write_bytes({"text": b"my thesis\n" * 50, "zeros": bytes(4096), "nothing": b""}[made])
            before = content_of(tmp_path)
            with pytest.raises(DatasetError, match=r"no .* of photonflow's|symbolic link"):
                export_clusters(finished[0], place, overwrite=True)
            assert content_of(tmp_path) == before

    def test_an_export_that_is_broken_off_leaves_nothing_and_keeps_the_earlier_one(self, finished, tmp_path, name):
        export_clusters(finished[0], tmp_path / name)
        before = content_of(tmp_path)

        def interrupt(frames, clusters):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            export_clusters(finished[0], tmp_path / name, overwrite=True, on_progress=interrupt)
        assert content_of(tmp_path) == before

    def test_nothing_is_seen_at_the_place_before_it_is_whole(self, finished, tmp_path, name):
        seen = []
        export_clusters(
            finished[0], tmp_path / name, on_progress=lambda frames, clusters: seen.append((tmp_path / name).exists())
        )
        assert len(seen) == 3
        assert not any(seen)

    def test_nothing_foreign_comes_into_a_dataset(self, finished, name):
        with pytest.raises(DatasetError, match="lies inside"):
            export_clusters(finished[0], finished[0] / name)

    def test_a_chunk_that_was_lost_is_no_chunk_of_zeros(self, finished, tmp_path, name):
        (finished[0] / "signal" / "c" / "2" / "0" / "0").unlink()
        with pytest.raises(DatasetError, match="lacks the chunk signal/c/2/0/0"):
            export_clusters(finished[0], tmp_path / name)

    def test_a_damaged_chunk_is_named(self, finished, tmp_path, name):
        chunk = finished[0] / "signal" / "c" / "2" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-3] + b"abc")
        with pytest.raises(DatasetError, match=r"clusters.zarr/signal/c/2/0/0 is damaged"):
            export_clusters(finished[0], tmp_path / name)
        assert [entry.name for entry in tmp_path.iterdir()] == ["clusters.zarr"]


def content_of(place):
    """Every file below a place, with its bytes."""
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


class TestHostilePlaces:
    """Disks that are full, names that are odd, others that write at the same time."""

    @pytest.mark.parametrize("name", ["c.clust", "c.h5", "c.parquet", "c.zarr"])
    def test_a_disk_that_takes_no_more_is_a_sentence_and_leaves_nothing(self, finished, tmp_path, name):
        source, room = finished[0], 2000
        if name == "c.zarr":
            source = tmp_path / "a.clust"
            export_clusters(finished[0], source)
        before = sorted(tmp_path.rglob("*"))
        # No file may be larger: writing fails as on a full disk, and in a process of its own, for HDF5 has been seen to
        # take the whole process with it.
        script = (
            "import resource, signal, sys\n"
            "from cluster_store.formats import ClustLayout, export_clusters, import_clusters\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
            "said = dict(layout=ClustLayout((3, 3), 'int32'), frame_shape=(40, 60), attrs={})\n"
            "source, to = sys.argv[1:]\n"
            "try:\n"
            "    import_clusters(source, to, **said) if to.endswith('zarr') else export_clusters(source, to)\n"
            "except ValueError as refusal:\n"
            "    print(refusal, end='')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, source, tmp_path / name], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "File too large" in done.stdout
        assert "\n" not in done.stdout
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize("suffix", [".clust", ".h5", ".parquet"])
    def test_any_name_will_do_that_the_file_system_takes(self, finished, tmp_path, suffix):
        names = [f"with space{suffix}", f"µ 光子{suffix}", os.fsdecode(b"not unicode \xff") + suffix, f"s3:a{suffix}"]
        for name in names:
            export_clusters(finished[0], tmp_path / name)
            export_clusters(finished[0], tmp_path / name, overwrite=True)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*names, "clusters.zarr"])

    @pytest.mark.parametrize("name", ["c.clust", "c.h5", "c.parquet"])
    def test_of_two_that_write_to_one_name_the_second_leaves_the_first_as_it_is(self, finished, tmp_path, name):
        other = []

        def meanwhile(frames, clusters):
            if not other:
                other.append(export_clusters(finished[0], tmp_path / name, frames=(7, 30)))

        with pytest.raises(DatasetError, match=r"exists; choose another place, or ask to overwrite it"):
            export_clusters(finished[0], tmp_path / name, on_progress=meanwhile)
        export_clusters(finished[0], tmp_path / f"alone_{name}", frames=(7, 30))
        assert content_of(tmp_path / name) == content_of(tmp_path / f"alone_{name}")
        assert len(list(tmp_path.iterdir())) == 3

    def test_a_damaged_hdf5_file_is_nobodys_and_stays(self, finished, tmp_path):
        export_clusters(finished[0], tmp_path / "c.h5")
        whole = (tmp_path / "c.h5").read_bytes()
        for damaged in (whole[:3000], whole[:100] + bytes(3000) + whole[3100:]):
            (tmp_path / "c.h5").write_bytes(damaged)
            with pytest.raises(DatasetError, match="is no HDF5 file of photonflow's"):
                export_clusters(finished[0], tmp_path / "c.h5", overwrite=True)
            assert (tmp_path / "c.h5").read_bytes() == damaged


def test_attributes_of_any_kind_are_in_the_hdf5_file(tmp_path, layout):
    h5py = pytest.importorskip("h5py")
    attrs = {"history": "one\ntwo", "big": 2**70, "nothing": None, "nul": "a\0b", "mixed": [1, "x"], "half": "\ud800"}
    layout = replace(layout, n_frames=0)
    create_dataset(tmp_path / "c.zarr", layout, attrs)
    finish_dataset(tmp_path / "c.zarr", layout, 0, {})
    export_clusters(tmp_path / "c.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as file:
        kept = file["entry/parameters"].attrs
        assert kept["history"] == "one\ntwo"
        assert {name: json.loads(kept[name]) for name in attrs if name != "history"} == {
            name: value for name, value in attrs.items() if name != "history"
        }


def test_a_name_says_the_format(finished, tmp_path):
    with pytest.raises(DatasetError, match=r"end it with one of .parquet, .clust, .h5"):
        export_clusters(finished[0], tmp_path / "c.csv")
    with pytest.raises(DatasetError, match=r"only a .clust file"):
        export_clusters(finished[0], tmp_path / "c.h5", dtype="int16")
