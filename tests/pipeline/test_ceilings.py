"""Ceilings are measured on real files, real processes and the machine that runs the tests; their values are its own."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zarr

from cluster_store import DatasetLayout
from finder import FinderParameters
from frame_archive import FrameArchive
from pipeline.ceilings import Ceilings, MeasuredCeiling, Spread, Subject, keep_ceilings, kept_ceilings
from pipeline.ceilings.crew import Crew, Done
from pipeline.ceilings.gpu import GPU_CEILINGS
from pipeline.ceilings.machine import machine, storage_of
from pipeline.ceilings.measuring import measure_ceilings
from pipeline.ceilings.storage import REPEATS, StillCachedError, read_rate
from pipeline.errors import RunError


def subject_of(path: str, out: str) -> Subject:
    archive, parameters = FrameArchive.open(path), FinderParameters()
    layout = DatasetLayout(
        n_frames=archive.n_frames,
        first_frame=0,
        batch_size=archive.n_frames,
        frame_shape=archive.frame_shape,
        cluster_size=parameters.cluster_size,
        signal_dtype="int32",
    )
    return Subject(archive, layout, out, parameters)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_everything_is_measured_or_said_not_to_be_and_nothing_is_left_behind(make_archive, tmp_path):
    made = make_archive()
    subject = subject_of(made.path, made.out)
    before = sorted(tmp_path.iterdir())
    steps: list[str] = []
    found = measure_ceilings(subject, steps.append, window_seconds=0.002)
    assert sorted(tmp_path.iterdir()) == before
    assert found.machine == machine()
    expected = {"memory copy", "memory triad", "float32", "int32", "page faults", "decode lz4", "decode zstd"}
    expected |= {"decode uncompressed", subject.decode(apart=True), subject.write(), subject.read(cold=False)}
    assert expected <= found.ceilings.keys()
    for name in expected:
        assert found[name].missing is None
        assert found[name].one_core.median > 0, name
        assert found[name].one_core.lowest <= found[name].one_core.median <= found[name].one_core.highest
    assert found[subject.decode(apart=True)].all_cores.median > 0
    assert {"reading", subject.decode(apart=True), "page faults"} <= set(steps)
    for name in GPU_CEILINGS:
        assert found[name].rate is None
        assert found[name].missing.startswith("not measured")


def test_a_decode_ceiling_is_named_after_what_decides_its_speed(make_archive, tmp_path):
    blosc = make_archive(name="a.zarr")
    assert (
        subject_of(blosc.path, blosc.out)
        .decode(apart=True)
        .startswith("decode uint16 20×20×30 bytes+blosc-lz4-bitshuffle")
    )
    archive = zarr.open_group(blosc.path)["frames"]
    path = str(tmp_path / "gzip.zarr")
    group = zarr.create_group(path)
    group.create_array("frames", data=archive[:], chunks=(10, 20, 30), compressors=[zarr.codecs.GzipCodec(level=1)])
    together = subject_of(path, str(tmp_path / "out.zarr"))
    assert together.decode(apart=False) == "read + decode uint16 10×20×30 bytes+gzip"
    assert not together.reads_apart()
    assert subject_of(blosc.path, blosc.out).reads_apart()


def test_files_in_memory_are_never_read_cold(tmp_path):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("there is no file system in memory to read from: /dev/shm can't be written")
    file = shm / f"photonflow-test-{os.getpid()}"
    try:
        file.write_bytes(bytes(1 << 16))
        with pytest.raises(StillCachedError, match=r"in memory|does not say"):
            read_rate([str(file)], 1, cold=True)
        assert read_rate([str(file)], 1, cold=False).median > 0
    finally:
        file.unlink()


def test_files_on_a_disk_are_read_cold_however_quick_it_is(tmp_path):
    if storage_of(str(tmp_path)).startswith(("tmpfs", "ramfs")):
        pytest.skip(f"there is no disk to read from: {tmp_path} lies in memory")
    # More of them than one: a byte that was asked for brings in those behind it, on a quick disk before the answer.
    files = [tmp_path / str(number) for number in range(8)]
    for file in files:
        file.write_bytes(os.urandom(1 << 20))
    read_from_disk = read_by_this_process()
    assert read_rate([str(file) for file in files], 1, cold=True).median > 0
    assert read_by_this_process() - read_from_disk >= REPEATS << 23


def read_by_this_process() -> int:
    """Bytes that storage was asked for."""
    return int(re.search(r"^read_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)[1])


def test_what_was_measured_is_kept_for_this_machine_and_added_to(cache):
    assert kept_ceilings() is None
    copy = MeasuredCeiling("memory copy", "arrays", "B/s", Spread(1.0, 0.9, 1.1), Spread(1.5, 1.4, 1.6), 2)
    missing = MeasuredCeiling("device memory", "", "B/s", missing="not measured: no GPU")
    keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {c.name: c for c in (copy, missing)}))
    triad = replace(copy, name="memory triad")
    file = keep_ceilings(Ceilings(machine(), "2026-01-02T00:00:00+00:00", {"memory triad": triad}))
    kept = kept_ceilings()
    assert kept.ceilings == {"memory copy": copy, "device memory": missing, "memory triad": triad}
    assert kept.measured == "2026-01-02T00:00:00+00:00"
    assert file.parent == cache / "photonflow"
    assert kept["never heard of"].rate is None


def test_another_driver_or_version_is_another_machine(cache):
    file = keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {}))
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"machine": values["machine"] | {"gpu": "another, 999.9"}}))
    assert kept_ceilings() is None
    file.write_text("{torn")
    assert kept_ceilings() is None


def _everywhere(values: dict, **change) -> dict:
    return values | {"ceilings": [ceiling | change for ceiling in values["ceilings"]]}


@pytest.mark.parametrize(
    "damage",
    [
        *(
            lambda values, rate=rate: _everywhere(values, one_core={"median": rate, "lowest": rate, "highest": rate})
            for rate in (0, -1.0, "fast", None, True, float("nan"), float("inf"), 1e-320)
        ),
        lambda values: _everywhere(values, cores=0),
        lambda values: _everywhere(values, cores="two"),
        lambda values: _everywhere(values, unit="furlong/s"),
        lambda values: _everywhere(values, missing=3),
        lambda values: [values],
        lambda values: values | {"ceilings": None},
    ],
)
def test_kept_ceilings_that_nothing_can_have_are_none_and_are_replaced(cache, damage):
    # A run that divided by them would end in an error after its last batch.
    copy = MeasuredCeiling("memory copy", "arrays", "B/s", Spread(1.0, 0.9, 1.1))
    measured = Ceilings(machine(), "2026-01-01T00:00:00+00:00", {"memory copy": copy})
    file = keep_ceilings(measured)
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))
    assert kept_ceilings() is None
    keep_ceilings(measured)
    assert kept_ceilings() == measured


def test_a_file_of_brackets_holds_no_ceilings(cache):
    file = keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {}))
    file.write_text("[" * 100_000)
    assert kept_ceilings() is None


def test_a_user_without_a_home_keeps_no_ceilings_and_is_told_so(monkeypatch, caplog):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # Python's answer for a user of a container whom the system does not know.
    monkeypatch.setenv("HOME", "~")
    assert kept_ceilings() is None
    assert keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {})) is None
    assert "there is no home folder; set XDG_CACHE_HOME" in caplog.text


def test_ceilings_that_find_no_room_leave_no_half_of_a_file(cache, caplog):
    (cache / "photonflow").mkdir(parents=True)
    taken = keep_ceilings(Ceilings(machine(), "2026-01-01T00:00:00+00:00", {}))
    taken.unlink()
    taken.mkdir()  # A folder is where the file would go.
    assert keep_ceilings(Ceilings(machine(), "2026-01-02T00:00:00+00:00", {})) is None
    assert "can't be kept" in caplog.text
    assert list(taken.parent.iterdir()) == [taken]


def test_a_worker_gets_no_more_than_one_core_does_and_its_share_of_all():
    ceiling = MeasuredCeiling("decode", "", "B/s", Spread(3.0, 3.0, 3.0), Spread(4.0, 4.0, 4.0), cores=2)
    assert [ceiling.share(workers) for workers in (1, 2, 4)] == [3.0, 2.0, 1.0]
    assert replace(ceiling, all_cores=None).share(4) == 1.5
    assert MeasuredCeiling("x", "", "B/s").share(1) is None


@dataclass(frozen=True)
class Refuses:
    def prepared(self, member):
        raise ValueError("this can't be done")


@dataclass(frozen=True)
class Dies:
    def __str__(self):
        return "dying"

    def prepared(self, member):
        os._exit(1)


@dataclass(frozen=True)
class Counts:
    def prepared(self, member):
        return lambda: Done(1.0, 0.5)


def test_only_the_time_that_counts_makes_the_rate_and_work_that_fails_says_why():
    with Crew(1, window_seconds=0.001) as crew:
        assert crew.rate(Counts(), 1) == Spread(2.0, 2.0, 2.0)
        with pytest.raises(ValueError, match="this can't be done"):
            crew.rate(Refuses(), 1)
        assert crew.rate(Counts(), 1).median == 2.0
        with pytest.raises(RunError, match="a process ended while dying was measured"):
            crew.rate(Dies(), 1)
