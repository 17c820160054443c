"""Bad input to ``photonflow process``: one sentence that names the path and what to do, and nothing half-written."""

from __future__ import annotations

import shutil
import socket

import numpy as np
import pytest
import zarr

from cluster_store import dataset_status
from frame_archive import create_archive


@pytest.fixture
def untouched(tmp_path):
    """Check at the end that there is no output, not even a begun one."""
    yield
    assert not list(tmp_path.glob("*.clusters.zarr"))


def store(path, **arrays):
    """A Zarr group with the given arrays."""
    group = zarr.create_group(path)
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))
    return path


# NPY files whose header claims 10¹³ rows, or can't be parsed.
HUGE_NPY, TORN_NPY = (
    b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    for header in (b"{'descr': '<u2', 'fortran_order': False, 'shape': (10000000000000, 10)}\n", b"((((((((((((((((\n")
)
FRAMES = np.full((6, 12, 10), 1000, np.uint16)
DARK = np.full((20, 12, 10), 1000, np.uint16)


@pytest.mark.usefixtures("untouched")
class TestArchive:
    def test_a_path_that_is_not_there(self, photonflow, tmp_path):
        outcome = photonflow("process", "nothing.zarr")
        assert outcome.code == 1
        assert str(tmp_path / "nothing.zarr") in outcome.sentence

    def test_not_a_zarr_store(self, photonflow, tmp_path):
        (tmp_path / "a.zarr").mkdir()
        (tmp_path / "a.zarr" / "notes.txt").write_text("frames are elsewhere")
        outcome = photonflow("process", "a.zarr")
        assert (outcome.code, "Zarr" in outcome.sentence, "a.zarr" in outcome.sentence) == (1, True, True)

    def test_a_file_that_is_not_zarr(self, photonflow, tmp_path):
        (tmp_path / "a.zarr").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
        outcome = photonflow("process", "a.zarr")
        assert (outcome.code, "a.zarr" in outcome.sentence) == (1, True)

    def test_no_frames(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", dark=DARK, other=np.zeros((3, 4), np.uint16)))
        assert (outcome.code, "frames" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("shape", [(12, 10), (2, 6, 12, 10)])
    def test_wrong_rank(self, photonflow, tmp_path, shape):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=np.zeros(shape, np.uint16)))
        assert (outcome.code, str(shape) in outcome.sentence) == (1, True)

    def test_float_frames(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=FRAMES.astype(np.float32), dark=DARK))
        assert (outcome.code, "float32" in outcome.sentence, "integer" in outcome.sentence) == (1, True, True)

    def test_zero_frames(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=FRAMES[:0], dark=DARK))
        assert (outcome.code, "no frames" in outcome.sentence) == (1, True)

    def test_a_missing_chunk(self, photonflow, archive):
        (archive / "frames" / "c" / "1" / "0" / "0").unlink()
        outcome = photonflow("process", archive)
        assert (outcome.code, "c/1/0/0" in outcome.sentence, "a.zarr" in outcome.sentence) == (1, True, True)

    def test_a_frames_path_that_is_not_there(self, photonflow, archive):
        outcome = photonflow("process", archive, "--frames-path", "data/raw")
        assert (outcome.code, "data/raw" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("frames", ["0:31", "40:", "20:10", "5:5", "-3:10"])
    def test_frames_out_of_range(self, photonflow, archive, frames):
        outcome = photonflow("process", archive, f"--frames={frames}")
        assert (outcome.code, "0:30" in outcome.sentence) == (1, True)


@pytest.mark.usefixtures("untouched")
class TestPedestalAndMask:
    def test_dark_of_another_shape(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=FRAMES, dark=DARK[:, :5]))
        assert (outcome.code, "dark" in outcome.sentence, "a.zarr" in outcome.sentence) == (1, True, True)

    def test_no_dark_and_no_pedestal(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=FRAMES))
        assert (outcome.code, "--pedestal" in outcome.sentence, "a.zarr" in outcome.sentence) == (1, True, True)

    def test_one_dark_frame(self, photonflow, tmp_path):
        outcome = photonflow("process", store(tmp_path / "a.zarr", frames=FRAMES, dark=DARK[:1]))
        assert (outcome.code, "at least 2" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("pedestal", ["first:0", "first:1", "first:30", "first:", "first:ten", "missing.npz"])
    def test_a_pedestal_that_can_not_be(self, photonflow, archive, pedestal):
        outcome = photonflow("process", archive, "--pedestal", pedestal)
        assert (outcome.code, pedestal.partition(":")[0] in outcome.sentence) == (1, True)

    def test_first_frames_that_leave_none_of_those_wanted(self, photonflow, archive):
        outcome = photonflow("process", archive, "--pedestal", "first:20", "--frames", "0:20")
        assert (outcome.code, "after them" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize(
        "planes",
        [
            {"mean": np.zeros((12, 10))},
            {"mean": np.zeros((3, 3)), "noise": np.ones((3, 3))},
            {"mean": np.full((12, 10), np.nan), "noise": np.ones((12, 10))},
            {"mean": np.zeros((12, 10)), "noise": -np.ones((12, 10))},
            {"mean": np.zeros((12, 10), complex), "noise": np.ones((12, 10))},
            {"mean": np.full((12, 10), "5"), "noise": np.ones((12, 10))},
        ],
        ids=["no noise", "another shape", "NaN", "negative noise", "complex", "text"],
    )
    def test_an_npz_pedestal_that_does_not_fit(self, photonflow, archive, tmp_path, planes):
        np.savez(tmp_path / "pedestal.npz", **planes)
        outcome = photonflow("process", archive, "--pedestal", "pedestal.npz")
        assert (outcome.code, "pedestal.npz" in outcome.sentence) == (1, True)

    def test_a_pedestal_of_another_memory(self, photonflow, archive, tmp_path):
        assert photonflow("process", archive, "--out", "earlier.zarr", "--n-samples", 500, "--cpus", 1).code == 0
        outcome = photonflow("process", archive, "--pedestal", "earlier.zarr")
        assert (outcome.code, "--n-samples 500" in outcome.sentence) == (1, True)

    def test_a_mask_of_another_shape(self, photonflow, archive, tmp_path):
        np.save(tmp_path / "mask.npy", np.zeros((10, 12), bool))
        outcome = photonflow("process", archive, "--mask", "mask.npy")
        assert (outcome.code, "mask.npy" in outcome.sentence, "(10, 12)" in outcome.sentence) == (1, True, True)

    @pytest.mark.parametrize("content", [b"", b"not numpy at all", b"PK\x03\x04 not a zip", HUGE_NPY, TORN_NPY])
    def test_a_mask_that_is_none(self, photonflow, archive, tmp_path, content):
        (tmp_path / "mask.npy").write_bytes(content)
        outcome = photonflow("process", archive, "--mask", "mask.npy")
        assert (outcome.code, "mask.npy" in outcome.sentence) == (1, True)

    def test_a_mask_of_floats(self, photonflow, archive, tmp_path):
        np.save(tmp_path / "mask.npy", np.zeros((12, 10)))
        outcome = photonflow("process", archive, "--mask", "mask.npy")
        assert (outcome.code, "float64" in outcome.sentence) == (1, True)

    def test_a_masks_archive_that_is_given_by_mistake(self, photonflow, archive, tmp_path):
        outcome = photonflow("process", archive, "--mask", store(tmp_path / "m.zarr", other=np.zeros((12, 10))))
        assert (outcome.code, "m.zarr" in outcome.sentence) == (1, True)


@pytest.mark.usefixtures("untouched")
class TestParameters:
    @pytest.mark.parametrize("n_sigma", ["0", "-1", "nan", "inf"])
    def test_n_sigma(self, photonflow, archive, n_sigma):
        outcome = photonflow("process", archive, "--n-sigma", n_sigma)
        assert (outcome.code, "n_sigma" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("size", ["4x4", "3x2", "-3x3", "11x11", "1x1"])
    def test_cluster_size(self, photonflow, archive, size):
        outcome = photonflow("process", archive, f"--cluster-size={size}")
        assert (outcome.code, "cluster_size" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize(("option", "value"), [("--batch-size", "0"), ("--batch-size", "-5"), ("--n-samples", "0")])
    def test_sizes_below_one(self, photonflow, archive, option, value):
        outcome = photonflow("process", archive, option, value)
        assert (outcome.code, value in outcome.sentence) == (1, True)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--cluster-size", "three"],
            ["--frames", "some"],
            ["--noise", "loud"],
            ["--cpus", "0"],
            ["--cpus", "1", "--gpus", "1"],
            ["--no-such-option"],
            ["--scheduler", "tcp://127.0.0.1:1", "--dashboard-address", ":8787"],
        ],
    )
    def test_wrong_usage_is_exit_code_2(self, photonflow, archive, arguments):
        outcome = photonflow("process", archive, *arguments)
        assert outcome.code == 2
        assert "Error: " in outcome.stderr
        assert "Traceback" not in outcome.stderr

    def test_no_archive_is_exit_code_2(self, photonflow):
        assert photonflow("process").code == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--warmup", "100", "--tracking", "off"],
            ["--recentre", "64", "--tracking", "chain"],
        ],
    )
    def test_what_is_not_there_yet_is_refused_and_not_ignored(self, photonflow, archive, arguments):
        outcome = photonflow("process", archive, *arguments)
        assert (outcome.code, arguments[0] in outcome.sentence) == (1, True)


@pytest.mark.usefixtures("untouched")
class TestWorkers:
    def test_gpus_where_there_are_none(self, photonflow, archive):
        outcome = photonflow("process", archive, "--gpus", 4)
        assert (outcome.code, "4 GPUs" in outcome.sentence, "--cpus" in outcome.sentence) == (1, True, True)

    def test_a_scheduler_that_does_not_answer(self, photonflow, archive):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        outcome = photonflow("process", archive, "--scheduler", address, "--no-progress")
        assert (outcome.code, address in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("address", ["nowhere", "tcp://127.0.0.1", "http://127.0.0.1:1", ""])
    def test_a_scheduler_address_that_is_none(self, photonflow, archive, address):
        outcome = photonflow("process", archive, "--scheduler", address, "--no-progress")
        assert outcome.code == 1
        assert "scheduler" in outcome.sentence

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("kind: local-cpu\nworker: 2\n", "'workers'"),
            ("kind: cloud\n", "cloud"),
            ("kind: local-cpu\nworkers: 0\n", "workers"),
            ("kind: existing\n", "scheduler"),
            ("- 1\n", "keys"),
            ("{", "YAML"),
            ("kind: local-cpu\nmemory_limit: lots\n", "lots"),
        ],
    )
    def test_a_cluster_file_that_means_nothing(self, photonflow, archive, tmp_path, text, said):
        (tmp_path / "cluster.yaml").write_text(text)
        outcome = photonflow("process", archive, "--cluster", "cluster.yaml", "--no-progress")
        assert (outcome.code, "cluster.yaml" in outcome.sentence, said in outcome.sentence) == (1, True, True)

    def test_a_cluster_file_that_is_not_there_and_a_name_that_is_none(self, photonflow, archive):
        assert "my.yaml" in photonflow("process", archive, "--cluster", "my.yaml").sentence
        assert "local-cpu" in photonflow("process", archive, "--cluster", "moon").sentence


class TestDamage:
    """What only shows while the frames are read: what was begun is there, marked as unfinished, and says so."""

    def test_a_flipped_bit_stops_the_run_and_names_batch_frames_and_file(self, python_m, archive):
        chunk = archive / "frames" / "c" / "1" / "0" / "0"
        flipped = bytearray(chunk.read_bytes())
        flipped[len(flipped) // 2] ^= 4
        chunk.write_bytes(flipped)
        outcome = python_m("process", archive, "--batch-size", 10, "--cpus", 1, "--no-progress")
        assert outcome.code == 1
        for said in ("batch 2 (frames 20:30)", str(chunk), "frames 20:30", "--resume"):
            assert said in outcome.sentence
        assert dataset_status(archive.with_name("a.clusters.zarr")) == "running"

    def test_a_chunk_cut_short_stops_the_run(self, python_m, archive):
        chunk = archive / "frames" / "c" / "0" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-100])
        outcome = python_m("process", archive, "--batch-size", 10, "--cpus", 1, "--no-progress")
        assert (outcome.code, str(chunk) in outcome.sentence) == (1, True)

    def test_a_missing_dark_chunk_stops_the_run_before_anything_is_written(self, python_m, archive):
        (archive / "dark" / "c" / "2" / "0" / "0").unlink()
        outcome = python_m("process", archive, "--cpus", 1, "--no-progress")
        assert (outcome.code, "dark" in outcome.sentence, "c/2/0/0" in outcome.sentence) == (1, True, True)
        assert not list(archive.parent.glob("*.clusters.zarr"))


class TestOutput:
    def test_an_output_that_exists_stays_as_it_is(self, photonflow, archive):
        assert photonflow("process", archive, "--cpus", 1, "--no-progress").code == 0
        out = archive.with_name("a.clusters.zarr")
        before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
        outcome = photonflow("process", archive)
        assert (outcome.code, str(out) in outcome.sentence, "--overwrite" in outcome.sentence) == (1, True, True)
        assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}

    @pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
    def test_what_is_not_ours_is_never_overwritten(self, photonflow, archive, tmp_path, overwrite):
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
        outcome = photonflow("process", archive, "--out", "thesis", *overwrite)
        assert (outcome.code, "thesis" in outcome.sentence) == (1, True)
        assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"

    @pytest.mark.parametrize("out", ["a.zarr", "a.zarr/clusters", "a.zarr/frames"])
    def test_an_output_inside_the_archive(self, photonflow, archive, out):
        before = sorted(archive.rglob("*"))
        outcome = photonflow("process", archive, "--out", out, "--overwrite")
        said = "archive itself" if out == "a.zarr" else "inside the archive"
        assert (outcome.code, said in outcome.sentence) == (1, True)
        assert sorted(archive.rglob("*")) == before

    def test_an_output_inside_the_archive_behind_a_link(self, photonflow, archive, tmp_path):
        (tmp_path / "elsewhere").symlink_to(archive)
        outcome = photonflow("process", archive, "--out", "elsewhere/out")
        assert (outcome.code, "inside the archive" in outcome.sentence) == (1, True)

    def test_an_archive_inside_the_output(self, photonflow, archive, tmp_path):
        (tmp_path / "out").mkdir()
        shutil.move(archive, tmp_path / "out" / "a.zarr")
        outcome = photonflow("process", "out/a.zarr", "--out", "out", "--overwrite")
        assert (outcome.code, "inside the output" in outcome.sentence) == (1, True)

    def test_an_output_inside_the_archive_of_the_pedestal(self, photonflow, archive, tmp_path):
        shutil.copytree(archive, tmp_path / "darks.zarr")
        outcome = photonflow("process", archive, "--pedestal", "darks.zarr", "--out", "darks.zarr/out")
        assert (outcome.code, "inside the pedestal" in outcome.sentence) == (1, True)

    def test_an_address_that_is_no_path(self, photonflow, archive, tmp_path):
        outcome = photonflow("process", archive, "--out", "s3://bucket/out.zarr")
        assert (outcome.code, "s3://" in outcome.sentence) == (1, True)
        assert not (tmp_path / "s3:").exists()

    def test_a_dataset_that_is_given_for_an_archive(self, photonflow, archive):
        assert photonflow("process", archive, "--cpus", 1, "--no-progress").code == 0
        outcome = photonflow("process", archive.with_name("a.clusters.zarr"))
        assert (outcome.code, "inspect" in outcome.sentence) == (1, True)

    def test_an_array_of_a_dataset_that_is_given_for_an_archive(self, photonflow, archive):
        assert photonflow("process", archive, "--cpus", 1, "--no-progress").code == 0
        signal = archive.with_name("a.clusters.zarr") / "signal"
        outcome = photonflow("process", signal, "--pedestal", "first:3", "--out", "b.zarr")
        assert (outcome.code, "a.clusters.zarr is a cluster dataset already" in outcome.sentence) == (1, True)

    def test_an_output_inside_any_zarr_store(self, photonflow, archive, tmp_path):
        shutil.copytree(archive, tmp_path / "other.zarr")
        outcome = photonflow("process", archive, "--out", "other.zarr/mine.zarr")
        assert (outcome.code, f"inside the Zarr store {tmp_path}/other.zarr" in outcome.sentence) == (1, True)
        # So does the output that lies beside the frames when these are named alone.
        outcome = photonflow("process", archive / "frames", "--pedestal", "first:10")
        assert (outcome.code, "inside the Zarr store" in outcome.sentence) == (1, True)

    def test_an_empty_name_of_an_output(self, photonflow, archive):
        outcome = photonflow("process", archive, "--out", "")
        assert (outcome.code, "--out is empty" in outcome.sentence) == (1, True)

    @pytest.mark.parametrize("kind", ["a folder", "a link", "lines"])
    def test_a_journal_that_is_somebody_elses(self, photonflow, archive, tmp_path, kind):
        mine = tmp_path / ("mine" if kind == "a link" else "c.zarr.journal")
        mine.mkdir()
        (mine / ("batches.log" if kind == "lines" else "run.json")).write_text('{"mine": 1}')
        (mine / "state-3.bin").write_text("my state")
        if kind == "a link":
            (tmp_path / "c.zarr.journal").symlink_to(mine)
        before = {file: file.read_bytes() for file in mine.iterdir()}
        outcome = photonflow("process", archive, "--out", "c.zarr", "--overwrite")
        assert (outcome.code, "c.zarr.journal is in the way" in outcome.sentence) == (1, True)
        assert {file: file.read_bytes() for file in mine.iterdir()} == before

    @pytest.mark.parametrize("out", ["/proc/clusters.zarr", "/dev/null/clusters.zarr"])
    def test_an_unwritable_place(self, photonflow, archive, out):
        outcome = photonflow("process", archive, "--out", out)
        assert (outcome.code, out in outcome.sentence) == (1, True)


def test_a_window_larger_than_the_detector_works(photonflow, tmp_path):
    rng = np.random.default_rng(3)
    frames = rng.normal(1000, 5, (8, 2, 2))
    frames[:, 1, 1] += 300
    writer = create_archive(tmp_path / "a.zarr", shape=frames.shape, dtype=np.uint16, n_dark=100)
    writer.write_dark(0, rng.normal(1000, 5, (100, 2, 2)).astype(np.uint16))
    writer.write_frames(0, frames.astype(np.uint16))
    outcome = photonflow("process", "a.zarr", "--cluster-size", "9x9", "--cpus", 1)
    assert outcome.code == 0
    assert "clusters                  8" in " ".join(outcome.stdout.split("\n")) or "8" in outcome.stdout
