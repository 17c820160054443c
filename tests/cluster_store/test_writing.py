import multiprocessing
import pickle

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline

from cluster_store import (
    ClusterWriter,
    DatasetError,
    DatasetLayout,
    Written,
    create_dataset,
    finish_dataset,
    open_clusters,
    read_layout,
)
from cluster_store.chunk_files import ChunkFiles


def test_processes_that_write_different_chunks_make_one_dataset(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        jobs = [
            pool.apply_async(writer.write_clusters, (first, *rows.clusters(first, first + n)))
            for first, n in ((256, 64), (0, 128), (192, 64), (128, 64))  # the last chunks first
        ]
        jobs += [
            pool.apply_async(writer.write_frames, (first, *rows.frames(first, first + 20))) for first in (40, 0, 20)
        ]
        written = sum((job.get(timeout=60) for job in jobs), Written())
    finish_dataset(path, layout, 300, {})
    ds = xr.open_zarr(path)
    for name in ("frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status"):
        np.testing.assert_array_equal(ds[name].values, getattr(rows, name))
    assert ds.n_clusters.sum() == ds.sizes["cluster"] == 300
    assert written.raw == 300 * (36 + 4 + 2 + 2) + 50 * (4 + 8 + 1)
    chunk_files = (file for file in path.rglob("c/**/*") if file.is_file() and "cluster_" not in str(file))
    assert written.stored == sum(file.stat().st_size for file in chunk_files)


def test_readers_see_no_cluster_before_the_end(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 100)
    create_dataset(path, layout, {})
    ClusterWriter(path, layout).write_clusters(0, *rows.clusters(0, 100))
    ds = xr.open_zarr(path, consolidated=False)
    assert (ds.sizes["cluster"], ds.sizes["frame"], ds.attrs["status"]) == (0, 50, "running")


def test_writing_again_leaves_the_same_bytes(tmp_path, layout, make_rows, file_digests):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 300)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, 300))
    writer.write_frames(0, *rows.frames(0, 50))
    before = file_digests(path)
    assert len([key for key in before if "/c/" in key]) == 4 * 5 + 3 * 3 + 2
    again = pickle.loads(pickle.dumps(writer))
    again.write_frames(40, *rows.frames(40, 50))
    again.write_clusters(256, *rows.clusters(256, 300))
    again.write_clusters(64, *rows.clusters(64, 192))
    assert file_digests(path) == before
    finish_dataset(path, layout, 300, {})
    finished = file_digests(path)
    again.write_clusters(256, *rows.clusters(256, 300))  # a straggler, after the end
    assert file_digests(path) == finished


def test_the_last_chunk_is_written_whole(finished):
    path, _ = finished
    longer = zarr.open_array(path, path="x", mode="r+")
    assert longer.shape == (300,)
    longer.resize((320,))
    np.testing.assert_array_equal(longer[300:], 0)
    assert (path / "x" / "c" / "4").exists()


def test_chunks_of_nothing_but_zeros_exist(tmp_path, layout):
    path = tmp_path / "c.zarr"
    create_dataset(path, layout, {})
    writer = pickle.loads(pickle.dumps(ClusterWriter(path, layout)))
    zeros = np.zeros(64, np.uint16)
    writer.write_clusters(0, zeros.astype(np.uint32), zeros, zeros, np.zeros((64, 3, 3), np.int32))
    n = np.zeros(50, np.uint32)
    writer.write_frames(0, n, n.astype(np.uint64), n.astype(np.uint8))
    for name in ("frame_index", "x", "y", "n_clusters", "frame_number", "frame_status"):
        assert (path / name / "c" / "0").stat().st_size > 0
    assert (path / "signal" / "c" / "0" / "0" / "0").stat().st_size > 0


def test_a_write_that_does_not_start_at_a_chunk_is_refused(tmp_path, layout, make_rows):
    create_dataset(tmp_path / "c.zarr", layout, {})
    writer, rows = ClusterWriter(tmp_path / "c.zarr", layout), make_rows(layout, 64)
    for first in (1, 32, 65, -64):
        with pytest.raises(ValueError, match="multiple of 64"):
            writer.write_clusters(first, *rows.clusters(0, 64))
    for first, stop in ((10, 30), (0, 19), (20, 41), (40, 60)):
        with pytest.raises(ValueError, match="whole batches of 20 frames out of 50"):
            writer.write_frames(first, *(np.zeros(stop - first, dtype) for dtype in (np.uint32, np.uint64, np.uint8)))


def test_arrays_of_another_type_or_length_are_refused_and_nothing_is_written(tmp_path, layout, make_rows, file_digests):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 64)
    create_dataset(path, layout, {})
    before = file_digests(path)
    writer = ClusterWriter(path, layout)
    frame_index, y, x, signal = rows.clusters(0, 64)
    with pytest.raises(ValueError, match=r"signal is float32 .* must be int32"):
        writer.write_clusters(0, frame_index, y, x, signal.astype(np.float32))
    with pytest.raises(ValueError, match=r"x is uint16 of shape \(63,\)"):
        writer.write_clusters(0, frame_index, y, x[1:], signal)
    with pytest.raises(ValueError, match="signal is"):
        writer.write_clusters(0, frame_index, y, x, signal[:, :, :2])
    assert file_digests(path) == before


@pytest.mark.parametrize(
    ("n_frames", "batch_size", "per_chunk"), [(50, 10**12, 50), (1, 2, 1), (50, 50, 50), (0, 9, 1)]
)
def test_a_batch_size_beyond_the_run_costs_no_more_than_the_run(tmp_path, make_rows, n_frames, batch_size, per_chunk):
    layout = DatasetLayout(n_frames, 0, batch_size, (8, 9), (3, 3), rows_per_chunk=64)
    path, rows = tmp_path / "c.zarr", make_rows(layout, 100 * (n_frames > 0))
    create_dataset(path, layout, {})
    for name in ("n_clusters", "frame_number", "frame_status"):
        assert zarr.open_array(path, path=name, mode="r").chunks == (per_chunk,)
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, len(rows.x)))
    assert writer.write_frames(0, *rows.frames(0, n_frames)).raw == 13 * n_frames
    finish_dataset(path, layout, len(rows.x), {})
    ds = open_clusters(path)
    np.testing.assert_array_equal(ds.frame_number, rows.frame_number)
    assert ds.attrs["batch_size"] == batch_size
    assert read_layout(path) == layout


def test_strided_input_is_written_as_it_reads(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 256)
    create_dataset(path, layout, {})
    frame_index, y, x, signal = (a[::2] for a in rows.clusters(0, 256))
    ClusterWriter(path, layout).write_clusters(0, frame_index, y, x, signal)
    counts = np.bincount(frame_index, minlength=50).astype(np.uint32)
    ClusterWriter(path, layout).write_frames(0, counts, rows.frame_number, rows.frame_status)
    finish_dataset(path, layout, 128, {})
    np.testing.assert_array_equal(open_clusters(path).signal, rows.signal[::2])


def test_writing_needs_the_dataset_it_was_made_for(tmp_path, layout, make_rows):
    rows = make_rows(layout, 64)
    with pytest.raises(DatasetError, match="create the dataset first"):
        ClusterWriter(tmp_path / "none.zarr", layout).write_clusters(0, *rows.clusters(0, 64))
    assert not (tmp_path / "none.zarr").exists()
    create_dataset(tmp_path / "c.zarr", DatasetLayout(50, 7, 20, (40, 60), (3, 3), rows_per_chunk=32), {})
    with pytest.raises(DatasetError, match="belongs to another run"):
        ClusterWriter(tmp_path / "c.zarr", layout).write_clusters(0, *rows.clusters(0, 64))


class PipelineOfAReader(BatchedCodecPipeline):
    """Reads, and does not write as we need it: zarrs, for one, leaves out empty chunks and writes in place."""

    async def write(self, *arguments, **options):
        raise AssertionError("written through another pipeline")


def test_a_codec_pipeline_that_a_reader_set_globally_does_not_write_our_chunks(tmp_path, layout, make_rows):
    path, rows = tmp_path / "c.zarr", make_rows(layout, 64)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    register_pipeline(PipelineOfAReader)
    name = f"{PipelineOfAReader.__module__}.{PipelineOfAReader.__qualname__}"
    with zarr.config.set({"codec_pipeline.path": name, "array.write_empty_chunks": False}):
        writer.write_clusters(0, *(np.zeros_like(values) for values in rows.clusters(0, 64)))
    assert (path / "signal" / "c" / "0" / "0" / "0").exists()


def test_the_layout_is_read_back(tmp_path, layout):
    create_dataset(tmp_path / "c.zarr", layout, {})
    assert read_layout(tmp_path / "c.zarr") == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    with pytest.raises(DatasetError, match="absent"):
        read_layout(tmp_path / "d.zarr")


@pytest.mark.parametrize(("cluster_size", "rows"), [((3, 3), 2**18), ((5, 5), 2**16), ((9, 9), 2**15), ((3, 5), 2**17)])
def test_a_chunk_of_signal_holds_about_8_mib(cluster_size, rows):
    layout = DatasetLayout(1, 0, 1, (10, 10), cluster_size)
    assert layout.rows_per_chunk == rows
    assert 2**0.5 >= rows * 4 * cluster_size[0] * cluster_size[1] / 2**23 >= 0.5**0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"n_frames": -1}, "n_frames is -1"),
        ({"cluster_size": (2, 3)}, "cluster_size"),
        ({"frame_shape": (0, 3)}, "frame_shape"),
        ({"signal_dtype": "int16"}, "signal_dtype is 'int16'"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(change, message):
    sizes = {"n_frames": 1, "first_frame": 0, "batch_size": 1, "frame_shape": (4, 4), "cluster_size": (3, 3)}
    with pytest.raises(ValueError, match=message):
        DatasetLayout(**(sizes | change))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_chunks_on_a_local_disk_have_the_bytes_that_zarr_would_write(
    tmp_path, make_rows, file_digests, monkeypatch, dtype
):
    layout = DatasetLayout(50, 7, 20, (60, 70), (3, 5), dtype, rows_per_chunk=64)
    rows = make_rows(layout, 300)
    digests, written = [], []
    for name in ("by_ourselves", "by_zarr"):
        path = tmp_path / name
        create_dataset(path, layout, {})
        writer = ClusterWriter(path, layout)
        written.append(writer.write_clusters(0, *rows.clusters(0, 300)) + writer.write_frames(0, *rows.frames(0, 50)))
        digests.append(file_digests(path))
        monkeypatch.setattr(ChunkFiles, "of", staticmethod(lambda array: None))
    assert digests[0] == digests[1]
    assert written[0] == written[1]
    assert len([key for key in digests[0] if "/c/" in key]) == 4 * 5 + 3 * 3 + 2


def test_arrays_that_others_have_made_are_written_by_zarr(tmp_path, layout):
    create_dataset(tmp_path / "c.zarr", layout, {})
    assert ChunkFiles.of(zarr.open_array(tmp_path / "c.zarr/signal")) is not None
    for name, options in {"other codecs": {"compressors": None}, "other type": {"dtype": ">i4"}}.items():
        given = {"shape": (4, 3), "chunks": (4, 3), "dtype": "i4", **options}
        assert ChunkFiles.of(zarr.create_array(str(tmp_path / name), **given)) is None
    assert ChunkFiles.of(zarr.create_array(zarr.storage.MemoryStore(), shape=(4,), dtype="i4")) is None


def test_what_cannot_be_written_leaves_no_half_of_it(tmp_path, layout):
    create_dataset(tmp_path / "c.zarr", layout, {})
    array = zarr.open_array(tmp_path / "c.zarr/y")
    files = ChunkFiles.of(array)
    (tmp_path / "c.zarr/y/c/3").mkdir(parents=True)  # a folder where the chunk should go
    (tmp_path / "c.zarr/y/c/3/file").touch()
    with pytest.raises(IsADirectoryError, match="y/c/3"):
        files.write(3, np.zeros(layout.rows_per_chunk, array.dtype))
    assert not list(tmp_path.rglob("*.partial"))
