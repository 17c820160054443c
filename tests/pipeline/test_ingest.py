"""An archive made of files, on a real cluster: equal value by value, told how it was made, resumed, verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xxhash
import zarr

from frame_archive import ArchiveError, ArchiveWriter, FrameArchive, create_archive
from frame_formats import SourceError, open_source
from pipeline.errors import ResumeError, RunError
from pipeline.ingest.plan import Part
from pipeline.ingest.planning import IngestOptions, IngestWarning, plan_ingest
from pipeline.ingest.run import ingest
from pipeline.ingest.writing import write_part

SHAPE = (12, 10)


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 60_000, (53, *SHAPE)).astype(np.uint16)


@pytest.fixture
def make(client, tmp_path):
    """Ingest sources into `a.zarr` of the test's folder."""

    def call(*sources, out="a.zarr", verify="sample", resume=False, overwrite=False, on_progress=None, **options):
        plan = plan_ingest([str(source) for source in sources], IngestOptions(**options))
        return ingest(
            plan,
            tmp_path / out,
            client,
            verify=verify,
            resume=resume,
            overwrite=overwrite,
            command="ingest …",
            on_progress=on_progress or (lambda nbytes: None),
        )

    return call


def saved(path, values) -> str:
    np.save(path, values)
    return str(path)


def test_frames_and_darks_of_several_files_become_one_archive(make, frames, tmp_path):
    parts = [saved(tmp_path / f"f{i}.npy", part) for i, part in enumerate(np.split(frames, [20, 41]))]
    dark = saved(tmp_path / "dark.npy", frames[:30].astype(">u2"))
    result = make(*parts, dark=(dark,), frames_per_chunk=4)
    assert (result.n_frames, result.n_dark, result.ended_early) == (53, 30, ())
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.frames[:], frames)
    np.testing.assert_array_equal(archive.dark[:], frames[:30])
    assert archive.frames.chunks == (4, *SHAPE)
    assert archive.missing_chunks(0, 53) == []


def test_an_archive_says_what_it_was_made_of_and_digests_that_anyone_can_take(make, frames, tmp_path):
    first, second = saved(tmp_path / "f1.npy", frames[:30]), saved(tmp_path / "f2.npy", frames[30:])
    make(first, second)
    made = FrameArchive.open(tmp_path / "a.zarr").attrs["ingest"]
    assert made["status"] == "complete"
    assert made["formats"] == ["NPY"]
    assert [(entry["path"], entry["frames"]) for entry in made["sources"]] == [(first, 30), (second, 23)]
    digests = zarr.open_array(tmp_path / "a.zarr" / "frame_digest", mode="r")[:]
    assert digests.tolist() == [xxhash.xxh3_64_intdigest(frame.tobytes()) for frame in frames]
    assert made["sources"][1]["digest"] == xxhash.xxh3_128_hexdigest(digests[30:].astype("<u8").tobytes())


def test_an_archive_is_the_same_byte_for_byte_whatever_its_sources_are(make, frames, tmp_path):
    saved(tmp_path / "whole.npy", frames)
    np.savez_compressed(tmp_path / "whole.npz", frames=frames)
    for out, source in (("a.zarr", "whole.npy"), ("b.zarr", "whole.npz")):
        make(tmp_path / source, out=out, frames_per_chunk=6)
    trees = [
        {str(file.relative_to(root)): file.read_bytes() for file in (root / "frames").rglob("*") if file.is_file()}
        for root in (tmp_path / "a.zarr", tmp_path / "b.zarr")
    ]
    assert trees[0] == trees[1]
    assert len(trees[0]) == 9 + 1


def test_sources_are_found_by_workers_that_stand_in_another_folder(make, frames, tmp_path, monkeypatch):
    saved(tmp_path / "f.npy", frames)
    monkeypatch.chdir(tmp_path)
    make("f.npy", dark=("f.npy",))
    np.testing.assert_array_equal(FrameArchive.open("a.zarr").frames[:], frames)


def test_the_first_frames_can_be_the_darks(make, frames, tmp_path):
    make(saved(tmp_path / "f.npy", frames), dark=("first:13",))
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.dark[:], frames[:13])
    np.testing.assert_array_equal(archive.frames[:], frames[13:])


@pytest.mark.parametrize("compression", ["lz4", "zstd", "none"])
def test_every_compression_holds_the_same_values(make, frames, tmp_path, compression):
    make(saved(tmp_path / "f.npy", frames), compression=compression, verify="all", frames_per_chunk=7)
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], frames)


def test_masks_are_combined_and_gain_bits_recorded(make, frames, tmp_path):
    mask = np.zeros(SHAPE, bool)
    mask[3, 4] = True
    make(saved(tmp_path / "f.npy", frames), mask=saved(tmp_path / "mask.npy", mask), gain_bits=2)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    assert np.argwhere(archive.pixel_mask).tolist() == [[3, 4]]
    assert archive.attrs["gain_bits"] == 2


def test_verify_counts_the_chunks_that_are_read_back(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames)
    counts = [
        make(path, verify=verify, frames_per_chunk=1, overwrite=True).n_verified for verify in ("none", "sample", "all")
    ]
    assert counts == [0, 4, 53]


def test_a_source_that_ends_early_gives_the_frames_before_and_those_of_the_next(make, frames, tmp_path):
    for name in ("f1.npy", "f2.npy"):
        saved(tmp_path / name, frames)
    (tmp_path / "f1.npy").write_bytes((tmp_path / "f1.npy").read_bytes()[:-1000])
    with pytest.warns(IngestWarning, match=r"f1\.npy is cut short: 48 of its 53 frames are there"):
        result = make(tmp_path / "f1.npy", tmp_path / "f2.npy")
    assert len(result.ended_early) == 1
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.frames[:], np.concatenate([frames[:48], frames]))
    assert archive.frame_numbers(46, 50).tolist() == [46, 47, 53, 54]
    assert zarr.open_array(tmp_path / "a.zarr" / "frame_status", mode="r")[46:50].tolist() == [0, 0, 8, 0]


def test_frames_before_one_that_cannot_be_unpacked_are_kept_and_the_archive_ends_there(make, frames, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "f.tif"
    tifffile.imwrite(path, frames, compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as file:
        at = file.pages[37].dataoffsets[0]
    content = bytearray(path.read_bytes())
    content[at : at + 40] = bytes(40)
    path.write_bytes(content)
    result = make(path, frames_per_chunk=5)
    assert result.n_frames == 37
    assert len(result.ended_early) == 1
    assert result.ended_early[0].startswith(f"page 37 of {path} is damaged: ")
    assert result.ended_early[0].endswith("; the archive has the 37 frames before it")
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.frames[:], frames[:37])
    assert archive.missing_chunks(0, 37) == []
    assert zarr.open_array(tmp_path / "a.zarr" / "frame_digest", mode="r").shape == (37,)


def test_a_source_of_which_no_frame_can_be_read_says_so_and_is_replaced(make, frames, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        data = file.create_dataset("entry/data/data", data=frames, chunks=(1, *SHAPE), fletcher32=True)
        at = data.id.get_chunk_info(0).byte_offset
    content = bytearray((tmp_path / "f.h5").read_bytes())
    content[at] ^= 1
    (tmp_path / "f.h5").write_bytes(content)
    with pytest.raises(RunError, match=r"^no frame can be read: frame 0 of .* replace it with --overwrite$"):
        make(tmp_path / "f.h5")
    make(saved(tmp_path / "f.npy", frames), overwrite=True)
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], frames)


def test_a_file_that_is_named_twice_is_taken_once_and_told(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames)
    with pytest.warns(IngestWarning, match=r"f\.npy is named more than once, and taken once"):
        assert make(path, path).n_frames == 53


class BrokenOffError(Exception):
    """Ends a run in the middle."""


def break_off(make, path, **options) -> None:
    def stop(nbytes: int) -> None:
        if nbytes:
            raise BrokenOffError

    with pytest.raises(BrokenOffError):
        make(path, on_progress=stop, **options)


def test_what_was_broken_off_goes_on_with_what_is_there(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames)
    break_off(make, path, frames_per_chunk=5)
    with pytest.raises(ArchiveError, match=r"a\.zarr is unfinished: .* goes on with --resume"):
        FrameArchive.open(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "frames" / "c" / "2" / "0" / "0").unlink()
    damaged = tmp_path / "a.zarr" / "frames" / "c" / "4" / "0" / "0"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    half = damaged.with_name("0.0123456789abcdef.partial")  # What a worker that is killed leaves.
    half.write_bytes(b"half a chunk")
    result = make(path, frames_per_chunk=5, resume=True)
    assert result.n_found == 53 - 10
    assert not half.exists()
    archive = FrameArchive.open(tmp_path / "a.zarr")
    np.testing.assert_array_equal(archive.frames[:], frames)
    assert len(set(zarr.open_array(tmp_path / "a.zarr" / "frame_digest", mode="r")[:].tolist())) == 53


def test_a_run_that_ended_before_its_first_frame_or_while_it_shortened_goes_on_too(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames)
    break_off(make, path)
    writer = ArchiveWriter.open(tmp_path / "a.zarr")
    state = writer.attrs()["ingest"]
    writer.set_length("frames", 17)
    writer.add_array("frame_digest", (3,), np.uint64, (3,), ("frame",))
    make(path, resume=True)
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], frames)
    writer.set_attrs({"ingest": {**state, "plan": None}})
    assert make(path, resume=True).n_found == 0
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], frames)


def test_an_archive_is_never_overwritten_by_what_is_made_of_it(make, frames, tmp_path):
    make(saved(tmp_path / "f.npy", frames))
    for options in ({}, {"dark": (str(tmp_path / "a.zarr"),)}):
        source = tmp_path / ("f.npy" if options else "a.zarr")
        with pytest.raises(ArchiveError, match=r"a\.zarr is what the archive would be made of"):
            make(source, overwrite=True, **options)
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], frames)
    make(tmp_path / "a.zarr", out="b.zarr", frames_per_chunk=3, compression="none")
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "b.zarr").frames[:], frames)


def test_what_was_made_of_something_else_does_not_go_on(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames)
    break_off(make, path)
    with pytest.raises(ResumeError, match="begun from other sources or with other options"):
        make(path, resume=True, frames_per_chunk=7)
    saved(tmp_path / "f.npy", frames[:50])
    with pytest.raises(ResumeError, match="or the sources have changed since"):
        make(path, resume=True)
    make(path, overwrite=True)
    with pytest.raises(ResumeError, match="is complete"):
        make(path, resume=True)
    with pytest.raises(ArchiveError, match="exists already"):
        make(path)


def test_a_value_that_does_not_fit_ends_the_run_and_leaves_nothing_that_opens(make, frames, tmp_path):
    path = saved(tmp_path / "f.npy", frames.astype(np.int64) + 6000)
    with pytest.raises(SourceError, match=r"holds int64 values"):
        make(path)
    with pytest.raises(ArchiveError, match=r"f\.npy holds the value \d+ in its frame 0, which is no uint16") as error:
        make(path, store_as="uint16")
    # The same again would end the same.
    assert str(error.value).endswith("; what was written stays: begin anew with --overwrite")
    with pytest.raises(ArchiveError, match="is unfinished"):
        FrameArchive.open(tmp_path / "a.zarr")


def test_a_chunk_that_reads_back_otherwise_is_told(frames, tmp_path):
    class Lying(ArchiveWriter):
        def write(self, name, start, values):
            super().write(name, start, values + np.uint16(1))

    create_archive(tmp_path / "a.zarr", frames.shape, frames.dtype)
    source = open_source(Path(saved(tmp_path / "f.npy", frames))).frames
    report = write_part(Part("frames", 0, 53, source), Lying(str(tmp_path / "a.zarr")), 20, "sample", False)
    assert report.problem.startswith(f"{tmp_path}/a.zarr/frames does not hold what was written: frames 0 to 19")


@pytest.mark.parametrize(("kind", "most"), [("npy", 1), ("h5", 4)])
@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_frames_are_read_singly_where_that_costs_no_more_and_else_by_whole_chunks(
    tmp_path, monkeypatch, kind, most, compression
):
    frames = np.random.default_rng(1).integers(0, 60_000, (10, 400, 400)).astype(np.uint16)
    path = tmp_path / f"f.{kind}"
    if kind == "npy":
        np.save(path, frames)
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["entry/data/data"] = frames
    source = open_source(path).frames
    read, asked = source.read, []
    monkeypatch.setattr(source, "read", lambda start, stop, out: (asked.append(stop - start), read(start, stop, out)))
    writer = create_archive(
        tmp_path / "a.zarr", frames.shape, frames.dtype, frames_per_chunk=4, compression=compression
    )
    report = write_part(Part("frames", 0, 10, source), writer, 4, "all", False)
    assert (report.problem, report.n_verified, sum(asked), max(asked)) == ("", 3, 10, most)
    np.testing.assert_array_equal(writer.archive().frames[:], frames)
    assert report.digests.tolist() == [xxhash.xxh3_64_intdigest(frame) for frame in frames]


def test_darks_of_other_settings_are_on_record_for_process_to_warn_of(make, frames, tmp_path):
    h5py = pytest.importorskip("h5py")
    for name, exposure in (("f.h5", 0.001), ("d.h5", 0.01)):
        with h5py.File(tmp_path / name, "w") as file:
            file["entry/data/data"] = frames
            file["entry/instrument/detector/count_time"] = exposure
    make(tmp_path / "f.h5", dark=(str(tmp_path / "d.h5"),))
    archive = FrameArchive.open(tmp_path / "a.zarr")
    assert archive.attrs["exposure_s"] == 0.001
    assert archive.dark.attrs["exposure_s"] == 0.01


def test_many_files_are_opened_by_the_workers(client, frames, tmp_path):
    for number, frame in enumerate(np.concatenate([frames, frames])):
        saved(tmp_path / f"f_{number}.npy", frame)
    plan = plan_ingest([str(tmp_path / "f_*.npy")], IngestOptions(), client)
    ingest(plan, tmp_path / "a.zarr", client)
    np.testing.assert_array_equal(FrameArchive.open(tmp_path / "a.zarr").frames[:], np.concatenate([frames, frames]))
    saved(tmp_path / "f_77.npy", frames[0, :5])
    with pytest.raises(SourceError, match=r"f_77\.npy has frames of 5×10 pixels"):
        plan_ingest([str(tmp_path / "f_*.npy")], IngestOptions(), client)
