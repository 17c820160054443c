"""A whole run on real Dask clusters: the same dataset whoever finds it, and exactly what the reference finds."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import WorkerPlugin

from finder import FinderParameters, Pedestal, rounded
from frame_archive import create_archive
from pipeline import (
    BatchError,
    ClusterConfig,
    RunError,
    RunOptions,
    StalePedestalWarning,
    execute,
    open_cluster,
    prepare,
    process,
)
from pipeline.workers.word import topic

# Chunks of the dataset so small that a batch writes several, and shares some with its neighbours.
ROWS_PER_CHUNK = 64


def run(archive, client, rows_per_chunk=ROWS_PER_CHUNK, on_step=None, on_progress=None, **options):
    """Run with small chunks; returns the dataset with all values, and its digest."""
    prepared = prepare(RunOptions(archive.path, overwrite=True, **options))
    prepared = replace(prepared, layout=replace(prepared.layout, rows_per_chunk=rows_per_chunk))
    result = execute(prepared, client, on_step=on_step, on_progress=on_progress)
    clusters = xr.open_zarr(result.out).load()
    assert clusters.attrs["digest"] == result.digest
    return clusters


def assert_same_clusters(clusters, expected):
    np.testing.assert_array_equal(clusters.n_clusters, expected["n_clusters"])
    for name in ("frame_index", "y", "x"):
        np.testing.assert_array_equal(clusters[name], expected[name])
    np.testing.assert_array_equal(clusters.signal, rounded(expected["signal"], np.dtype(np.int32)))
    assert int(clusters.n_clusters.sum()) == clusters.sizes["cluster"] == len(expected["y"])


# What tells one run from another, and says nothing of the result.
OF_THE_RUN = ("history", "run_id", "runs", "throughput")


def assert_identical(first, second):
    """Every array, coordinate and attribute is the same, the digest among them."""
    of_first = {name: first.attrs[name] for name in OF_THE_RUN}
    assert first.identical(second.assign_attrs(of_first))


def test_a_signal_beyond_int32_ends_the_run_with_the_options_that_hold_it(client, tmp_path):
    rng = np.random.default_rng(3)
    writer = create_archive(tmp_path / "a.zarr", shape=(20, 12, 10), dtype=np.int32, n_dark=100)
    writer.write_dark(0, rng.normal(-2e9, 5, (100, 12, 10)).astype(np.int32))
    frames = rng.normal(-2e9, 5, (20, 12, 10)).astype(np.int32)
    frames[3, 5, 5] = 2**31 - 1
    writer.write_frames(0, frames)
    said = r"^a signal of batch 0 \(frames 0:10\) does not fit int32.*--signal-dtype float32[^;]*--overwrite$"
    with pytest.raises(RunError, match=said):
        process(tmp_path / "a.zarr", client=client, batch_size=10, on_bad_batch="skip")
    clusters = process(tmp_path / "a.zarr", client=client, batch_size=10, signal_dtype="float32", overwrite=True)
    assert clusters.sizes["cluster"] >= 1


def test_the_dataset_is_what_the_reference_finds_batch_by_batch(client, make_archive):
    archive = make_archive()
    clusters = run(archive, client, batch_size=10)
    assert_same_clusters(clusters, archive.reference(batch_size=10))
    assert clusters.sizes["cluster"] > 5 * ROWS_PER_CHUNK
    np.testing.assert_array_equal(clusters.frame_number, np.arange(97))
    np.testing.assert_array_equal(clusters.frame_status, 0)


def test_the_dataset_is_the_same_for_any_number_of_workers_and_threads(client, make_archive):
    archive = make_archive()
    two = run(archive, client, batch_size=10)
    assert two.sizes["cluster"] > 5 * ROWS_PER_CHUNK
    for workers, threads in ((1, 1), (4, 1), (2, 3)):
        with open_cluster(ClusterConfig(workers=workers, threads=threads)) as other:
            assert_identical(two, run(archive, other, batch_size=10))


def test_a_worker_that_stalls_delays_its_batches_and_changes_nothing(client, make_archive):
    archive = make_archive()
    expected = run(archive, client, batch_size=10)
    address, worker = next(iter(client.scheduler_info(n_workers=-1)["workers"].items()))
    pid = client.run(os.getpid, workers=[address])[address]
    done_before = []

    def stop_it(step):
        if step.startswith("finding"):
            os.kill(pid, signal.SIGSTOP)

    def let_it_go_on(progress):
        done_before.append(progress.batches)
        if progress.batches == 3:
            os.kill(pid, signal.SIGCONT)

    try:
        clusters = run(archive, client, batch_size=10, on_step=stop_it, on_progress=let_it_go_on)
    finally:
        os.kill(pid, signal.SIGCONT)
    batches = xr.open_zarr(archive.out, group="batches").load()
    stalled = batches.attrs["worker_names"].index(str(worker["name"]))
    # The other worker's first three batches were done before any of the stalled worker's, which had the earlier ones.
    assert int(np.flatnonzero(batches.worker == stalled)[0]) < 3
    assert_identical(expected, clusters)


def test_a_killed_worker_loses_no_cluster_and_doubles_none(client, make_archive):
    archive = make_archive()
    expected = run(archive, client, batch_size=5)
    with open_cluster(ClusterConfig(workers=2)) as client:
        pid = next(iter(client.run(os.getpid).values()))

        def kill_it(progress):
            if progress.batches == 4:
                os.kill(pid, signal.SIGKILL)

        clusters = run(archive, client, batch_size=5, on_progress=kill_it)
        assert pid not in client.run(os.getpid).values()
    assert_identical(expected, clusters)


def test_a_batch_that_ends_every_worker_is_named(make_archive):
    archive = make_archive(n_frames=20)
    with open_cluster(ClusterConfig(workers=1)) as client:
        client.register_plugin(EndsItself(of=1))
        # Four times by Dask's rule, which ends all that was waiting there too, and once by itself.
        with pytest.raises(BatchError, match=r"batch 1 \(frames 5:10\) ended its worker 5 times with exit status 1"):
            run(archive, client, batch_size=5)


class EndsItself(WorkerPlugin):
    """Ends the worker when it begins to find the clusters of one batch."""

    name = "ends-itself"

    def __init__(self, of):
        self.of = of

    def transition(self, key, start, finish, **options):
        if str(key).startswith("find-") and str(key).endswith(f"-{self.of}") and finish == "executing":
            os._exit(1)


@pytest.mark.parametrize("photons", [0.02, 5.0, 15.0])
def test_sparse_and_dense_frames_are_written_without_gaps(client, make_archive, photons):
    archive = make_archive(photons=photons)
    assert_same_clusters(run(archive, client, batch_size=7), archive.reference(batch_size=7))


def test_a_cluster_chunk_may_span_the_whole_run(client, make_archive):
    archive = make_archive()
    assert_same_clusters(run(archive, client, rows_per_chunk=2**18, batch_size=7), archive.reference(7))


@pytest.mark.parametrize(
    ("n_frames", "shape", "batch_size"),
    [(21, (20, 30), 10), (3, (20, 30), 2000), (5, (1, 1), 2), (1, (1, 40), 1), (8, (40, 1), 3)],
    ids=["last batch of one frame", "fewer frames than a batch", "one pixel", "one row", "one column"],
)
def test_odd_sizes_work(client, make_archive, n_frames, shape, batch_size):
    archive = make_archive(n_frames=n_frames, shape=shape, photons=0.5)
    assert_same_clusters(run(archive, client, batch_size=batch_size), archive.reference(batch_size))


def test_no_cluster_in_the_whole_run_is_a_valid_dataset(client, make_archive):
    archive = make_archive(photons=0)
    clusters = run(archive, client, batch_size=10, parameters=FinderParameters(n_sigma=50))
    assert dict(clusters.sizes) == {"cluster": 0, "frame": 97, "cluster_y": 3, "cluster_x": 3}
    assert clusters.signal.shape == (0, 3, 3)
    assert int(clusters.n_clusters.sum()) == 0


def test_windows_masks_noise_modes_and_float_signal_reach_the_finder(client, make_archive):
    archive = make_archive()
    mask = np.zeros((20, 30), np.uint32)
    mask[5:9, 7:12] = 1
    parameters = FinderParameters(n_sigma=6, cluster_size=(3, 5), n_samples=200, noise="trained")
    clusters = run(
        archive, client, batch_size=25, parameters=parameters, mask=mask, signal_dtype="float32", frames=(11, None)
    )
    expected = archive.reference(25, parameters, first=11, pixel_mask=mask)
    np.testing.assert_array_equal(clusters.signal, expected["signal"])
    assert clusters.signal.dtype == np.float32
    np.testing.assert_array_equal(clusters.frame_index, expected["frame_index"])
    assert clusters.attrs["first_frame"] == 11
    assert clusters.attrs["masked_pixels"] == 20
    np.testing.assert_array_equal(clusters.frame_number, np.arange(11, 97))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32])
def test_frames_of_every_integer_type_are_processed(client, make_archive, dtype):
    archive = make_archive(n_frames=12, dtype=dtype)
    assert_same_clusters(run(archive, client, batch_size=5), archive.reference(5))


def test_chunks_that_are_larger_than_a_batch_and_do_not_line_up_with_it_work(client, make_archive):
    archive = make_archive(frames_per_chunk=16)
    assert_same_clusters(run(archive, client, batch_size=10), archive.reference(10))


class TestPedestal:
    """Where the pedestal comes from."""

    # There are photons in these darks, and the run says so.
    @pytest.mark.filterwarnings("ignore::pipeline.WrongDarksWarning")
    def test_the_first_frames_can_serve_as_darks_and_are_left_out(self, client, make_archive):
        archive = make_archive(n_frames=130, n_dark=0, photons=0.2)
        clusters = run(archive, client, batch_size=10, pedestal="first:100")
        as_dark = replace(archive, dark=archive.frames[:100])
        assert_same_clusters(clusters, as_dark.reference(10, first=100))
        assert clusters.attrs["first_frame"] == 100

    def test_another_archives_darks_an_npz_an_earlier_output_and_a_pedestal_give_the_same(
        self, client, make_archive, tmp_path
    ):
        archive = make_archive()
        bare = make_archive(n_dark=0, name="bare.zarr")
        bare = replace(bare, frames=archive.frames)
        pedestal = Pedestal.from_dark(archive.dark)
        earlier = run(archive, client, batch_size=10)
        results = [
            run(bare, client, batch_size=10, pedestal=source) for source in (archive.path, archive.out, pedestal)
        ]
        digests = {clusters.attrs["digest"] for clusters in results}
        assert len(digests) == 1
        assert earlier.sizes["cluster"] > 0

    def test_mean_and_noise_are_taken_from_npz_and_zarr(self, client, make_archive, tmp_path):
        archive = make_archive(n_dark=0, photons=0.2)
        mean, noise = archive.frames.mean(0), np.full((20, 30), 5.0)
        np.savez(tmp_path / "pedestal.npz", mean=mean, noise=noise)
        xr.Dataset({"mean": (("y", "x"), mean), "noise": (("y", "x"), noise)}).to_zarr(
            tmp_path / "pedestal.zarr", consolidated=False
        )
        ready = Pedestal.from_mean_and_noise(mean, noise)
        results = [
            run(archive, client, batch_size=10, pedestal=source)
            for source in (str(tmp_path / "pedestal.npz"), str(tmp_path / "pedestal.zarr"), ready)
        ]
        assert len({clusters.attrs["digest"] for clusters in results}) == 1

    def test_a_stale_pedestal_is_warned_of_and_a_good_one_is_not(self, client, make_archive):
        archive = make_archive()
        good = Pedestal.from_dark(archive.dark)
        run(archive, client, batch_size=50, pedestal=good)
        stale = Pedestal.from_mean_and_noise(good.mean - 4, good.noise)
        with pytest.warns(StalePedestalWarning, match=r"batch \d .* \+0\.[78]\d noise widths off"):
            run(archive, client, batch_size=50, pedestal=stale)
        offset = xr.open_zarr(archive.out, group="pedestal").offset
        assert offset.shape == (2,)
        assert float(abs(offset - 0.8).max()) < 0.1

    def test_a_stale_part_of_the_detector_is_warned_of(self, client, make_archive):
        archive = make_archive()
        good = Pedestal.from_dark(archive.dark)
        mean = good.mean.copy()
        mean[:10, :15] -= 40
        stale = Pedestal.from_mean_and_noise(mean, good.noise)
        with pytest.warns(StalePedestalWarning, match=r"25\.0% of all are off"):
            run(archive, client, batch_size=97, pedestal=stale)


class TestFromANotebook:
    """``process`` as a Python call."""

    def test_process_runs_on_a_client_that_is_there_and_leaves_it_as_it_was(self, client, make_archive):
        archive = make_archive()
        seen = []
        before = client.run(lambda dask_worker: sorted(dask_worker.plugins))
        clusters = process(archive.path, client=client, batch_size=10, on_progress=seen.append)
        assert_same_clusters(clusters.load(), archive.reference(10))
        assert (seen[-1].frames, seen[-1].batches, seen[-1].clusters) == (97, 10, clusters.sizes["cluster"])
        assert client.run(lambda dask_worker: sorted(dask_worker.plugins)) == before
        assert not client.run(lambda dask_worker: list(dask_worker.data))[next(iter(before))]

    def test_process_starts_workers_of_its_own_and_stops_them(self, make_archive):
        archive = make_archive(n_frames=12)
        clusters = process(archive.path, cpus=1, batch_size=10)
        assert_same_clusters(clusters.load(), archive.reference(10))

    def test_two_ways_to_find_workers_at_once_are_refused(self, client, make_archive):
        with pytest.raises(ValueError, match="exclude each other"):
            process(make_archive().path, client=client, cpus=2)

    def test_a_run_that_failed_in_this_process_can_be_run_again(self, client, make_archive):
        archive = make_archive(n_frames=40)
        chunk = Path(archive.path) / "frames" / "c" / "1" / "0" / "0"
        content = chunk.read_bytes()
        chunk.write_bytes(content[:-1])
        # Both batches that need the chunk fail, and either may be the first to say so.
        with pytest.raises(BatchError, match=r"batch [23] \(frames [23]0:[34]0\).*c/1/0/0"):
            process(archive.path, client=client, batch_size=10)
        chunk.write_bytes(content)
        clusters = process(archive.path, client=client, batch_size=10, overwrite=True)
        assert_same_clusters(clusters.load(), archive.reference(10))

    def test_numbers_may_be_numpys(self, client, make_archive):
        archive = make_archive(n_frames=40)
        clusters = process(archive.path, client=client, batch_size=np.int64(10), frames=(np.int16(10), np.uint8(40)))
        assert (clusters.attrs["batch_size"], clusters.attrs["first_frame"]) == (10, 10)
        with pytest.raises(ValueError, match="whole numbers"):
            process(archive.path, client=client, batch_size=2.5)

    def test_a_batch_size_far_above_the_run_is_one_batch(self, client, make_archive):
        archive = make_archive(n_frames=40)
        clusters = process(archive.path, client=client, batch_size=10**9)
        assert_same_clusters(clusters.load(), archive.reference(40))

    def test_an_output_that_exists_is_kept_unless_told(self, client, make_archive):
        archive = make_archive(n_frames=12)
        process(archive.path, client=client)
        with pytest.raises(FileExistsError, match="--overwrite"):
            process(archive.path, client=client)


def test_the_tables_of_batches_and_pedestal_say_what_each_batch_did(client, make_archive):
    archive = make_archive()
    clusters = run(archive, client, batch_size=10)
    batches = xr.open_zarr(archive.out, group="batches").load()
    assert batches.n_frames.values.tolist() == [10] * 9 + [7]
    assert batches.first_frame.values.tolist() == list(range(0, 97, 10))
    assert int(batches.n_clusters.sum()) == clusters.sizes["cluster"]
    assert int(batches.read_bytes.sum()) == archive.frames.nbytes
    assert int(batches.write_bytes.sum()) == sum(clusters[name].nbytes for name in ("signal", "x", "y", "frame_index"))
    for stage in ("read", "find"):
        assert bool((batches[f"{stage}_seconds"] > 0).all())
    pedestal = xr.open_zarr(archive.out, group="pedestal").load()
    assert bool((abs(pedestal.movement) < 0.2).all())
    np.testing.assert_array_equal(pedestal["mean"], Pedestal.from_dark(archive.dark).mean)


def test_a_run_that_hears_no_word_of_its_tasks_asks_them(client, make_archive):
    archive = make_archive(n_frames=40)
    at = []

    def stop_listening(progress):
        if not at:
            run_id = zarr.open_group(archive.out, mode="r").attrs["run_id"]
            client.unsubscribe_topic(topic(run_id))
        at.append(progress.batches)

    clusters = process(archive.path, client=client, batch_size=2, on_progress=stop_listening)
    assert at == list(range(1, 21))
    expected = archive.reference(2)
    for name in ("n_clusters", "frame_index", "y", "x"):
        np.testing.assert_array_equal(clusters[name], expected[name])
