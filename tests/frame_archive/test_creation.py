"""Archives that we write: the layout of the design, in parallel, and nothing else overwritten."""

import pickle
import resource
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import xarray as xr
import zarr

from frame_archive import ArchiveError, ArchiveWriter, FrameArchive, create_archive


def tree(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def write_part(path, start, frames):
    ArchiveWriter.open(path).write_frames(start, frames)


def test_an_archive_is_read_back_with_all_that_was_given(tmp_path, frames):
    mask = np.zeros((11, 13), np.uint32)
    mask[4, 5] = 1 << 20 | 2
    numbers = np.arange(1000, 1050, dtype=np.uint64)
    writer = create_archive(
        tmp_path / "a.zarr", frames.shape, "uint16", 3, {"exposure_s": 0.001}, mask, frame_numbers=numbers
    )
    writer.write_frames(0, frames)
    writer.write_dark(0, frames[:3])
    archive = writer.archive()
    np.testing.assert_array_equal(archive.frames[:], frames)
    np.testing.assert_array_equal(archive.dark[:], frames[:3])
    np.testing.assert_array_equal(archive.read_dark(0, 3), frames[:3])
    np.testing.assert_array_equal(archive.pixel_mask, mask)
    np.testing.assert_array_equal(archive.frame_numbers(0, 50), numbers)
    assert archive.attrs["exposure_s"] == 0.001
    assert archive.frames.chunks == (20, 11, 13)
    assert [codec["name"] for codec in archive.frames.metadata.to_dict()["codecs"]] == ["bytes", "blosc", "crc32c"]


def test_chunks_of_zeros_are_stored(tmp_path):
    writer = create_archive(tmp_path / "a.zarr", (50, 2, 3), "int32", n_dark=2)
    writer.write_frames(0, np.zeros((40, 2, 3), np.int32))
    pickle.loads(pickle.dumps(writer)).write_frames(40, np.zeros((10, 2, 3), np.int32))
    writer.write_dark(0, np.zeros((2, 2, 3), np.int32))
    assert writer.archive().missing_chunks(0, 50) == []
    assert not writer.archive().read_dark(0, 2).any()


def test_frames_that_were_not_written_are_missing(tmp_path):
    writer = create_archive(tmp_path / "a.zarr", (50, 2, 3), "uint8")
    writer.write_frames(20, np.zeros((20, 2, 3), np.uint8))
    assert writer.archive().missing_chunks(0, 50) == ["frames/c/0/0/0", "frames/c/2/0/0"]


def test_processes_write_their_own_chunks_side_by_side(tmp_path, frames, written):
    for name in ("a.zarr", "b.zarr"):
        create_archive(tmp_path / name, frames.shape, frames.dtype)
    ArchiveWriter.open(tmp_path / "a.zarr").write_frames(0, frames)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        starts = [40, 0, 20]
        parts = [frames[start : start + 20] for start in starts]
        list(pool.map(write_part, [tmp_path / "b.zarr"] * 3, starts, parts))
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


@pytest.mark.parametrize("compression", ["lz4", "none"])
@pytest.mark.parametrize("rows_at_once", [1, 7, 20, 50])
def test_what_is_written_as_it_is_read_is_what_is_written_at_once(tmp_path, frames, compression, rows_at_once):
    def read(start, stop, out):
        asked.append((start, stop))
        out[...] = frames[start:stop]

    asked: list[tuple[int, int]] = []
    for name in ("a.zarr", "b.zarr"):
        create_archive(tmp_path / name, frames.shape, frames.dtype, compression=compression)
    ArchiveWriter.open(tmp_path / "a.zarr").write_frames(0, frames)
    writer = ArchiveWriter.open(tmp_path / "b.zarr")
    for start, stop in ((20, 50), (0, 20)):
        writer.write_as_read("frames", start, stop, read, rows_at_once)
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")
    assert sum(stop - start for start, stop in asked) == 50
    assert max(stop - start for start, stop in asked) <= rows_at_once


@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_a_chunk_whose_reading_fails_in_the_middle_is_not_there_nor_half_of_it(tmp_path, frames, compression):
    def read(start, stop, out):
        if start >= 25:
            raise ValueError(f"frame {start} cannot be read")
        out[...] = frames[start:stop]

    writer = create_archive(tmp_path / "a.zarr", frames.shape, frames.dtype, compression=compression)
    writer.write_as_read("frames", 0, 20, read, 3)
    with pytest.raises(ValueError, match="frame 26 cannot be read"):
        writer.write_as_read("frames", 20, 40, read, 3)
    assert [file.name for file in (tmp_path / "a.zarr" / "frames" / "c").rglob("*") if file.is_file()] == ["0"]
    np.testing.assert_array_equal(writer.read_back("frames", 0, 20), frames[:20])


def test_values_that_would_share_a_chunk_or_do_not_fit_are_refused(tmp_path, frames):
    writer = create_archive(tmp_path / "a.zarr", frames.shape, frames.dtype)
    for start, part in [(10, frames[:20]), (0, frames[:10]), (40, frames[:20]), (0, frames[:20, :5])]:
        with pytest.raises(ValueError, match="do not fill whole chunks from row"):
            writer.write_frames(start, part)
    with pytest.raises(ValueError, match="frames holds uint16, not int32"):
        writer.write_frames(0, frames.astype(np.int32))
    writer.write_frames(0, frames.astype(">u2"))
    np.testing.assert_array_equal(writer.archive().frames[:], frames)


def test_xarray_opens_our_archives_without_a_warning(written, frames):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xr.open_zarr(written, consolidated=False)
    assert dataset.frames.dims == ("frame", "y", "x")
    np.testing.assert_array_equal(dataset.frames.values, frames)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "float32"}, "frames are one of"),
        ({"dtype": "int64"}, "frames are one of"),
        ({"shape": (0, 2, 3)}, "cannot make an archive"),
        ({"shape": (2, 3)}, "cannot make an archive"),
        ({"frames_per_chunk": 0}, "cannot make an archive"),
        ({"pixel_mask": np.zeros((3, 2))}, "pixel mask has the shape"),
        ({"frame_numbers": np.arange(3)}, "3 frame numbers for 4 frames"),
    ],
)
def test_arguments_without_sense_leave_nothing_behind(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        create_archive(tmp_path / "a.zarr", **({"shape": (4, 2, 3), "dtype": "uint16"} | options))
    assert not (tmp_path / "a.zarr").exists()


def test_nothing_is_overwritten_unasked(written):
    before = tree(written)
    with pytest.raises(ArchiveError, match=f"{written} exists already"):
        create_archive(written, (4, 2, 3), "uint16")
    assert tree(written) == before


def test_an_archive_of_ours_is_replaced_when_asked(written):
    create_archive(written, (4, 2, 3), "uint16", overwrite=True)
    assert FrameArchive.open(written).n_frames == 4
    assert FrameArchive.open(written).dark is None


def test_what_is_not_ours_is_never_overwritten(tmp_path, written):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_bytes(b"cat")
    foreign = tmp_path / "foreign.zarr"
    zarr.create_group(foreign).create_array("frames", data=np.ones((2, 2, 2), np.uint16))
    (written / "notes.txt").write_text("mine")
    link = tmp_path / "link.zarr"
    link.symlink_to(written)
    for path, words in {
        folder: "not an archive that photonflow made",
        foreign: "not an archive that photonflow made",
        folder / "cat.jpg": "not an archive that photonflow made",
        link: "not an archive that photonflow made",
        written: "holds notes.txt, which photonflow did not write",
    }.items():
        with pytest.raises(ArchiveError, match=words):
            create_archive(path, (4, 2, 3), "uint16", overwrite=True)
    assert (folder / "cat.jpg").read_bytes() == b"cat"
    assert FrameArchive.open(foreign).n_frames == 2
    assert FrameArchive.open(written).n_frames == 50


def test_only_our_archives_open_for_writing(tmp_path):
    zarr.create_group(tmp_path / "foreign.zarr")
    for path in (tmp_path / "foreign.zarr", tmp_path / "nothing.zarr"):
        with pytest.raises(ArchiveError, match="not an archive that photonflow made"):
            ArchiveWriter.open(path)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match="cannot be written: Not a directory"):
        create_archive(tmp_path / "file" / "a.zarr", (4, 2, 3), "uint16")


def test_a_disk_that_takes_no_more_is_one_sentence(tmp_path, frames):
    writer = create_archive(tmp_path / "a.zarr", frames.shape, frames.dtype)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ArchiveError, match=r"a\.zarr/frames cannot be written: File too large"):
            writer.write_frames(20, frames[20:40])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert writer.archive().missing_chunks(20, 40) == ["frames/c/1/0/0"]
