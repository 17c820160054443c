"""A run's stages against their ceilings, its sums, and runs slowed on purpose, which name what slowed them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from finder.products import ProductOptions
from frame_archive import FrameArchive
from pipeline import RunOptions, RunProgress, execute, prepare
from pipeline.batches.stage_totals import StageTotals
from pipeline.ceilings import Ceilings, MeasuredCeiling, Spread, Subject, keep_ceilings, kept_ceilings
from pipeline.ceilings.machine import machine
from pipeline.ceilings.of_stages import RunCeilings, all_here
from pipeline.errors import RunError
from pipeline.output.summary import require_all_read
from roofline import StageUse
from roofline.advice import stage_advice

BLOCK_DEVICES = Path("/sys/fs/cgroup/blkio")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Ceilings of the test's own, at first none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def subject_of(made, **options) -> Subject:
    prepared = prepare(RunOptions(made.path, overwrite=True, **options))
    return Subject(prepared.archive, prepared.layout, prepared.out, prepared.options.parameters)


def keep(subject: Subject, **rates: float) -> None:
    """Keep ceilings as if they had been measured: of stages, and what the finder's follows from."""
    names = {
        "cold": subject.read(cold=True), "warm": subject.read(cold=False), "decode": subject.decode(apart=True),
        "write": subject.write(), "float32": "float32", "memory": "memory triad", "faults": "page faults",
    }  # fmt: skip
    all_rates = dict.fromkeys(names, 1e9) | rates
    measured = [
        MeasuredCeiling(names[name], "", "B/s", Spread(rate, rate, rate), cores=2) for name, rate in all_rates.items()
    ]
    keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {ceiling.name: ceiling for ceiling in measured}))


def run(client, made, **options):
    return execute(prepare(RunOptions(made.path, overwrite=True, **options)), client)


def test_the_sums_of_a_run_are_those_of_the_archive_and_of_the_dataset(client, make_archive):
    made = make_archive()
    subject = subject_of(made)
    keep(subject)
    progress: list[RunProgress] = []
    prepared = prepare(RunOptions(made.path, batch_size=20))
    result = execute(prepared, client, on_progress=progress.append)
    dataset, batches = xr.open_zarr(result.out), xr.open_zarr(result.out, group="batches").load()
    files = [file for file in Path(made.path, "frames", "c").rglob("*") if file.is_file()]
    account = result.summary.account
    uses = {bar.name: bar.use for bar in account.bars}
    assert list(uses) == ["read", "decode", "find", "write"]
    assert uses["decode"].nbytes == uses["find"].nbytes == made.frames.nbytes == int(batches["read_bytes"].sum())
    assert uses["read"].nbytes == sum(file.stat().st_size for file in files) == int(batches["stored_bytes"].sum())
    assert uses["write"].nbytes == int(batches["write_bytes"].sum())
    assert account.clusters == dataset.sizes["cluster"] == int(batches["n_clusters"].sum())
    assert account.frames == 97
    # Every worker second is somewhere.
    whole = account.workers * (result.summary.startup_seconds + account.seconds)
    assert account.split.total == pytest.approx(whole)
    assert account.busy_seconds == pytest.approx(
        float(batches["read_seconds"].sum() + batches["find_seconds"].sum() + batches["write_seconds"].sum())
    )
    # The table of the batches says what belongs together.
    apart = float((batches["read_seconds"] - batches["decode_seconds"]).sum())
    assert uses["read"].busy_seconds == pytest.approx(apart)
    for stage in ("decode", "find", "write"):
        assert uses[stage].busy_seconds == pytest.approx(float(batches[f"{stage}_seconds"].sum()))
    assert "throughput calls read" in batches["read_seconds"].attrs["long_name"]
    # What workers did after their last batch, and besides the stages, is in no batch.
    assert (batches["idle_seconds"] >= 0).all()
    assert float(batches["idle_seconds"].sum()) <= account.idle_seconds + 1e-3
    assert "after a worker's last batch" in batches["idle_seconds"].attrs["long_name"]
    assert account.faults.seconds_each == pytest.approx(1e-9)
    assert account.faults.count == int(batches["minor_faults"].sum() + batches["write_minor_faults"].sum())
    # What the dataset keeps is what the run said.
    kept = json.loads(dataset.attrs["throughput"])
    told = account.as_dict()
    assert {name: kept[name] for name in told} == told
    assert kept["advice"] == result.summary.advice
    assert result.summary.frames_a_second == account.frames_a_second
    assert [ceiling["name"] for ceiling in kept["ceilings"]["ceilings"]][-1] == "page faults"
    # While it goes on, the tallest stage is told with its ceiling.
    assert [told.batches for told in progress] == [1, 2, 3, 4, 5]
    assert all(
        told.tallest.ceiling.bytes_a_second == pytest.approx(1e9) or told.tallest.name == "find" for told in progress
    )


def test_a_worker_that_had_no_batch_is_known_to_the_dataset(client, make_archive):
    batches = xr.open_zarr(run(client, make_archive(), batch_size=97).out, group="batches").load()
    names = sorted(str(worker["name"]) for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    assert len(names) == 2
    assert batches.attrs["worker_names"] == names
    assert batches.worker.to_numpy().tolist() in ([0], [1])


def test_bytes_that_were_not_read_are_a_fault_that_is_found(client, make_archive):
    made = make_archive()
    prepared = prepare(RunOptions(made.path, batch_size=20, warmup=7))
    seen = []
    execute(prepared, client, on_progress=seen.append)
    totals = StageTotals(read_bytes=seen[-1].uses[1].nbytes)
    # Warm-up frames are read beside the batches' own: 7 before each but the first.
    assert totals.read_bytes == made.frames.nbytes + 4 * 7 * made.frames[0].nbytes
    with pytest.raises(RunError, match=f"read {totals.read_bytes} bytes of frames where .* has 0"):
        require_all_read(prepared, [], totals)


def test_without_ceilings_a_run_says_that_they_were_not_measured(client, make_archive):
    account = run(client, make_archive()).summary.account
    assert account.tallest is not None
    assert all(bar.ceiling.bytes_a_second is None for bar in account.bars)
    assert np.isnan(account.bound_frames_a_second)
    assert account.as_dict()["share_of_bound"] is None


# Nothing is written but what was counted, so that what is slowed shows.
COUNTED = {"clusters": False, "products": ProductOptions(("hitmap",))}


def test_a_run_whose_chunks_are_decoded_over_and_over_is_bound_by_decoding(client, make_archive, tmp_path):
    # Each batch of forty frames takes them from the same chunk of four hundred, of a codec that is slow.
    made = make_archive(n_frames=400, shape=(100, 100), n_dark=100)
    group = zarr.create_group(str(tmp_path / "slow.zarr"))
    slow = zarr.codecs.BloscCodec(cname="zlib", clevel=1, shuffle="noshuffle")
    group.create_array("frames", data=made.frames, chunks=made.frames.shape, compressors=[slow])
    group.create_array("dark", data=made.dark, chunks=made.dark.shape)
    made = replace(made, path=str(tmp_path / "slow.zarr"))
    keep(subject_of(made), decode=2.6e9)
    summary = run(client, made, batch_size=40, **COUNTED).summary
    assert summary.account.tallest.name == "decode"
    assert "of 2.6 GB/s a worker; more cores or an uncompressed archive would help" in stage_advice(
        summary.account, summary.account.tallest
    )


@contextlib.contextmanager
def limited(client, device: int, limit: str, bytes_a_second: int) -> Iterator[None]:
    """The workers reach a block device no faster than so: a real limit."""
    group = BLOCK_DEVICES / f"photonflow-test-{os.getpid()}"
    workers = list(client.run(os.getpid).values())
    try:
        group.mkdir()
        setting = f"{os.major(device)}:{os.minor(device)} {bytes_a_second}"
        (group / f"blkio.throttle.{limit}_bps_device").write_text(setting)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"this system can't limit how fast a process reads or writes (cgroup blkio, as root): {error}")
    for pid in workers:
        (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        for pid in workers:
            (BLOCK_DEVICES / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@pytest.fixture
def slow_storage(client, tmp_path):
    """The disk that the test's files lie on, slow to read."""
    with limited(client, tmp_path.stat().st_dev, "read", 1_000_000):
        yield


@pytest.fixture
def slow_output(client, tmp_path):
    """A folder on a disk of its own, slow to write, that writes at once what it is given."""
    image, folder = tmp_path / "disk", tmp_path / "slow"
    image.touch()
    os.truncate(image, 64 << 20)
    folder.mkdir()
    for command in (("mkfs.ext4", "-q", "-F", image), ("mount", "-o", "loop,sync", image, folder)):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this system can't mount a file as a disk (as root): {done.stderr}")
    try:
        with limited(client, folder.stat().st_dev, "write", 50_000):
            yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_run_on_slow_storage_is_bound_by_reading(client, make_archive, slow_storage):
    made = make_archive(n_frames=500, shape=(40, 50))
    keep(subject_of(made), cold=2e9)
    prepared = prepare(RunOptions(made.path, batch_size=100, **COUNTED))
    for file in Path(made.path, "frames").rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    summary = execute(prepared, client).summary
    tallest = summary.account.tallest
    assert (tallest.name, tallest.ceiling.resource) == ("read", "storage")
    assert tallest.share_of_ceiling < 0.01
    assert "of 2.0 GB/s a worker; faster storage" in stage_advice(summary.account, tallest)
    # What the storage does could be hidden behind the cores' work, or the other way round.
    assert summary.account.split.overlap_lost > 0


def test_a_run_whose_output_is_slow_to_write_is_bound_by_writing(client, make_archive, slow_output):
    made = make_archive(n_frames=500, shape=(40, 50))
    out = str(slow_output / "out.zarr")
    prepared = prepare(RunOptions(made.path, out, batch_size=100))
    keep(Subject(prepared.archive, prepared.layout, out, prepared.options.parameters), write=0.4e9)
    summary = execute(prepared, client).summary
    tallest = summary.account.tallest
    assert tallest.name == "write"
    assert tallest.share_of_ceiling < 0.1
    assert "of 0.4 GB/s a worker; more cores, or counting without a list" in stage_advice(summary.account, tallest)


def test_archives_that_zarr_reads_have_one_stage_for_reading_and_decoding(client, make_archive, tmp_path):
    made = make_archive()
    group = zarr.create_group(str(tmp_path / "gzip.zarr"))
    for name, frames in (("frames", made.frames), ("dark", made.dark)):
        group.create_array(name, data=frames, chunks=(10, 20, 30), compressors=[zarr.codecs.GzipCodec(level=1)])
    other = replace(made, path=str(tmp_path / "gzip.zarr"))
    account = run(client, other).summary.account
    assert [bar.name for bar in account.bars] == ["read + decode", "find", "write"]
    assert account.bars[0].ceiling.name == "read + decode uint16 10×20×30 bytes+gzip"


class TestRunCeilings:
    """Which ceiling a stage has."""

    def of(self, make_archive, name, seconds, nbytes, **rates):
        self.n_made = getattr(self, "n_made", 0) + 1
        subject = subject_of(make_archive(name=f"{self.n_made}.zarr"))
        keep(subject, **rates)
        return RunCeilings(kept_ceilings(), subject, 1, 10).of([StageUse(name, seconds, nbytes)])[0]

    def test_what_is_read_faster_than_the_storage_can_comes_from_the_page_cache(self, make_archive):
        slow = self.of(make_archive, "read", 1.0, 10**8, cold=2e8)
        assert (slow.name.split()[1], slow.resource, slow.bytes_a_second) == ("cold", "storage", 2e8)
        fast = self.of(make_archive, "read", 1.0, 10**9, cold=2e8, warm=5e9)
        assert (fast.name.split()[1], fast.resource, fast.bytes_a_second) == ("warm", "core", 5e9)

    def test_finding_has_the_higher_floor_of_arithmetic_and_memory(self, make_archive):
        # 33 operations a pixel of two bytes; the pedestal of ten frames crosses to the cache once: 2 + 1.8 B a pixel.
        compute = self.of(make_archive, "find", 1.0, 10**9, float32=33e9, memory=1e12)
        assert (compute.name, compute.bytes_a_second) == ("float32", pytest.approx(2e9))
        assert compute.traffic == pytest.approx(1.9)
        memory = self.of(make_archive, "find", 1.0, 10**9, float32=1e15, memory=3.8e9)
        assert (memory.name, memory.bytes_a_second) == ("memory triad", pytest.approx(2e9))

    def test_the_stages_of_gpus_have_what_one_gpu_does_and_finding_the_slowest_of_them(self, make_archive):
        subject = subject_of(make_archive())
        rates = {"H2D, pinned": 10e9, "D2H, pinned": 5e9, "device memory": 40e9, "GPU float32": 33e12}
        found = {name: MeasuredCeiling(name, "", "", Spread(rate, rate, rate), cores=2) for name, rate in rates.items()}
        measured = Ceilings(machine(), "2026-01-01T00:00:00+00:00", found)
        # Two GPUs with three streams each; eight frames are taken along in a launch.
        ceilings = RunCeilings(measured, subject, 6, 10, gpus=2, frames_a_launch=8)
        uses = [
            StageUse("find", 9.0, 10**9),
            StageUse("H2D", 1.0, 10**9, within="find"),
            StageUse("kernel", 1.0, 10**9, within="find"),
            StageUse("D2H", 1.0, 10**8, within="find"),
        ]
        find, h2d, kernel, d2h = ceilings.of(uses)
        assert (h2d.name, h2d.bytes_a_second) == ("H2D, pinned", 10e9)
        assert (d2h.name, d2h.bytes_a_second) == ("D2H, pinned", 5e9)
        # Two bytes of a frame; of X0 and the pedestal, read and written, 18 B in eight frames: 4.25 B a pixel.
        assert (kernel.name, kernel.bytes_a_second) == ("device memory", pytest.approx(2 / 4.25 * 40e9))
        assert [stage.traffic for stage in (find, h2d, kernel, d2h)] == [1, 1, pytest.approx(4.25 / 2), 1]
        # 0.1 s of the bus, of which three workers a GPU have a third each.
        assert (find.name, find.bytes_a_second) == ("H2D, pinned", pytest.approx(10e9 / 3))
        assert {stage.resource for stage in (find, h2d, kernel, d2h)} == {"GPU"}
        not_measured = RunCeilings(None, subject, 6, 10, gpus=2).of(uses)
        assert [stage.bytes_a_second for stage in not_measured] == [None] * 4

    def test_workers_elsewhere_are_not_compared_with_this_machine(self):
        assert all_here(["tcp://127.0.0.1:4000", "inproc://10.0.0.1/1/2"])
        assert not all_here(["tcp://127.0.0.1:4000", "tls://203.0.113.7:4000"])


def test_an_archive_keeps_its_paths_to_chunks(make_archive):
    made = make_archive(n_frames=45)
    archive = FrameArchive.open(made.path)
    assert [Path(path).name for path in archive.chunk_paths(0, 45)] == ["0", "0", "0"]
    assert len(archive.chunk_paths(0, 20)) == 1
    Path(archive.chunk_paths(20, 40)[0]).unlink()
    assert len(archive.chunk_paths(0, 45)) == 2
