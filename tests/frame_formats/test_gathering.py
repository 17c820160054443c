"""Sources put together: which files are meant, in which order, with which numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frame_formats import (
    OpenedSource,
    SourceError,
    SourceFacts,
    UnreadableFrameError,
    files_meant,
    gather,
    open_source,
)
from frame_formats.file_bytes import PlainFrames
from frame_formats.natural_order import natural_key


@pytest.fixture
def source(tmp_path):
    """Make a source of frames of 2×3 whose values are 100 times their number in the file, and some facts."""

    def make(name: str, n: int, numbers=None, dtype="<u2", shape=(2, 3), **facts) -> OpenedSource:
        values = np.broadcast_to(100 * np.arange(n)[:, None, None], (n, *shape)).astype(dtype)
        (tmp_path / name).write_bytes(values.tobytes())
        known = None if numbers is None else np.array(numbers, np.uint64)
        frames = PlainFrames(tmp_path / name, n, shape, np.dtype(dtype))
        return OpenedSource(frames, SourceFacts("test", frame_numbers=known, **facts))

    return make


def firsts(frames, read) -> list[int]:
    return read(frames)[:, 0, 0].tolist()


def test_names_are_sorted_as_a_person_counts():
    names = ["f_10.tif", "f_9.tif", "f_1.tif", "a.tif", "f_09b.tif"]
    assert sorted(names, key=natural_key) == ["a.tif", "f_1.tif", "f_9.tif", "f_09b.tif", "f_10.tif"]


def test_patterns_folders_and_what_a_shell_expands_are_in_natural_order_and_a_users_order_is_kept(tmp_path):
    for name in ("f_1.npy", "f_2.npy", "f_10.npy", "notes.txt"):
        np.save(tmp_path / name, np.zeros((2, 2), np.uint16)) if name != "notes.txt" else (tmp_path / name).touch()
    in_order = ["f_1.npy", "f_2.npy", "f_10.npy"]
    paths = {name: str(tmp_path / name) for name in in_order}

    def meant(*addresses):
        return [path.name for path, _ in files_meant(addresses)]

    assert meant(str(tmp_path / "f_*.npy")) == in_order
    assert meant(str(tmp_path)) == in_order
    assert meant(*sorted(paths.values())) == in_order
    assert meant(paths["f_2.npy"], paths["f_1.npy"]) == ["f_2.npy", "f_1.npy"]


@pytest.mark.parametrize(
    ("address", "words"),
    [("gone.npy", "gone.npy does not exist"), ("*.h5", "no file matches"), ("empty", "empty holds no file of frames")],
)
def test_what_is_not_there_is_said(tmp_path, address, words):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=words):
        files_meant([str(tmp_path / address)])


def test_a_folder_of_several_kinds_of_files_is_refused(tmp_path):
    (tmp_path / "a.npy").touch()
    (tmp_path / "a.tif").touch()
    with pytest.raises(SourceError, match=r"several kinds \(\.npy, \.tif\): give a pattern"):
        files_meant([str(tmp_path)])


def test_an_array_is_named_after_two_colons_unless_a_file_has_that_name(tmp_path):
    (tmp_path / "a.h5").touch()
    (tmp_path / "b::c.npy").touch()
    assert files_meant([str(tmp_path / "a.h5::entry/x")]) == [(tmp_path / "a.h5", "entry/x")]
    assert files_meant([str(tmp_path / "b::c.npy")]) == [(tmp_path / "b::c.npy", None)]


def test_frames_are_put_in_order_of_their_number_and_gaps_and_duplicates_are_told(source, read):
    gathered = gather([source("a", 6, [7, 3, 4, 4, 9, 10])])
    assert gathered.frame_numbers.tolist() == [3, 4, 4, 7, 9, 10]
    assert firsts(gathered.frames, read) == [100, 200, 300, 0, 400, 500]
    assert gathered.frame_status.tolist() == [0, 4, 4, 8, 8, 0]
    where = gathered.frames.path
    assert gathered.problems == (
        f"{where}: 3 frame numbers are missing: 5 to 6, 8",
        f"{where}: 1 frames have a number that another has: 4; all are kept",
        f"{where}: the frames are not in the order of their numbers: they are put into it",
    )


def test_columns_and_states_follow_their_frames(source):
    facts = {"columns": {"timestamp": np.array([30, 10, 20])}, "frame_status": np.array([1, 0, 2], np.uint8)}
    gathered = gather([source("a", 3, [3, 1, 2], **facts), source("b", 3, [5, 4, 6], **facts)])
    assert gathered.columns["timestamp"].tolist() == [10, 20, 30, 10, 30, 20]
    assert gathered.frame_status.tolist() == [0, 2, 1, 0, 1, 2]
    assert gathered.order.tolist() == [1, 2, 0, 4, 3, 5]


def test_files_of_one_frame_each_are_numbered_together(source, read):
    gathered = gather([source(f"f{number}", 1, [number]) for number in (3, 1, 2)])
    assert gathered.frame_numbers.tolist() == [1, 2, 3]
    assert gathered.order.tolist() == [1, 2, 0]


def test_numbers_that_begin_again_in_another_source_are_kept_and_said(source):
    gathered = gather([source("a", 2, [1, 2]), source("b", 2, [1, 2]), source("c", 1, [9])])
    assert gathered.frame_numbers.tolist() == [1, 2, 1, 2, 9]
    assert gathered.frame_status.tolist() == [0, 0, 0, 0, 8]
    assert [problem.split(str(gathered.frames.path.parent))[0] for problem in gathered.problems] == [
        "frame numbers begin again at 1 with ", "6 frame numbers are missing before ",
    ]  # fmt: skip


def test_frames_without_numbers_have_none_unless_some_between_them_are_lost(source):
    assert gather([source("a", 2), source("b", 3)]).frame_numbers is None
    gathered = gather([source("a", 2, n_lost=3, ended_early="a is cut short"), source("b", 2)])
    assert gathered.frame_numbers.tolist() == [0, 1, 5, 6]
    assert gathered.frame_status.tolist() == [0, 0, 8, 0]
    assert gathered.ended_early == ("a is cut short",)


def test_what_sources_do_not_say_alike_is_left_out_and_said(source):
    first, second = {"exposure_s": 0.1, "detector": "A"}, {"exposure_s": 0.2, "detector": "A"}
    gathered = gather([source("a", 1, attrs=first), source("b", 1, attrs=second)])
    assert gathered.attrs == {"detector": "A"}
    assert gathered.problems == ("exposure_s differs between the sources (0.1, 0.2): it is left out",)


def test_masks_of_all_sources_count(source):
    masks = np.zeros((2, 2, 3), np.uint32)
    masks[0, 0, 1], masks[1, 1, 2] = 1, 2
    gathered = gather([source("a", 1, pixel_mask=masks[0]), source("b", 1, pixel_mask=masks[1])])
    np.testing.assert_array_equal(gathered.pixel_mask, masks[0] | masks[1])


def test_sources_of_several_shapes_or_types_are_refused_by_name(source):
    with pytest.raises(SourceError, match=r"b has frames of 3×2 pixels, and .*a of 2×3 pixels"):
        gather([source("a", 1), source("b", 1, shape=(3, 2))])
    with pytest.raises(SourceError, match=r"b holds int32 values, and .*a uint16: .*--store-as"):
        gather([source("a", 1), source("b", 1, dtype="<i4")])


@pytest.mark.parametrize(
    ("dtype", "store_as", "words"),
    [
        ("<i8", None, "holds int64 values, and an archive holds uint8, uint16, uint32, int16, int32"),
        ("<f4", None, "holds float32 values"),
        ("<i4", "uint8", "holds the value 300 in its frame 3, which is no uint8"),
        ("<f8", "uint8", "holds the value 300.0 in its frame 3"),
    ],
)
def test_nothing_is_cast_unasked_nor_if_a_value_does_not_fit(source, read, dtype, store_as, words):
    with pytest.raises(SourceError) as error:
        read(gather([source("a", 5, dtype=dtype)], store_as).frames)
    assert words in str(error.value)


@pytest.mark.parametrize("dtype", ["<i8", "<u8", "<f4", "<f8", ">i2", "u1"])
def test_values_that_fit_are_stored_in_the_type_that_is_asked_for(source, read, dtype):
    gathered = gather([source("a", 3, dtype=dtype)], "int32")
    assert gathered.frames.dtype == np.int32
    assert firsts(gathered.frames, read) == [0, 100, 200]


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, -1.0, 65536.0])
def test_what_is_no_integer_of_the_type_is_an_error(tmp_path, read, value):
    np.save(tmp_path / "a.npy", np.array([[[1.0, value]]]))
    with pytest.raises(SourceError, match="which is no uint16") as error:
        read(gather([open_source(tmp_path / "a.npy")], "uint16").frames)
    # No other type would hold what is no whole number.
    assert ("choose a type" in str(error.value)) == (value in (-1.0, 65536.0, np.inf))


def test_a_file_that_is_named_again_is_told_and_data_files_of_one_master_are_not(tmp_path):
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).touch()
    again: list[Path] = []
    addresses = [str(tmp_path / "b.npy"), str(tmp_path / "*.npy"), str(tmp_path / "a.npy::x")]
    meant = files_meant(addresses, again.append)
    assert [(path.name, name) for path, name in meant] == [("b.npy", None), ("a.npy", None), ("a.npy", "x")]
    assert again == [tmp_path / "b.npy"]


def test_a_piece_of_a_long_series_takes_only_its_own_sources(source, read):
    gathered = gather([source(f"f{i:03}", 2) for i in range(50)])
    piece = gathered.frames.cut(33, 36)
    assert firsts(piece, read) == [100, 0, 100]
    assert {Path(piece.path).name} == {"f016"}


@pytest.mark.parametrize("numbers", [None, [8, 7, 6, 5]])
def test_a_frame_that_cannot_be_read_is_told_by_its_place_among_all(source, tmp_path, numbers):
    gathered = gather([source("a", 4, None if numbers is None else range(1, 5)), source("b", 4, numbers)])
    # Of b, two frames of 12 bytes are left: its first two, which are the last two where its numbers run backwards.
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:30])
    first_lost = 6 if numbers is None else 4
    for start in (0, 3):
        piece = gathered.frames.cut(start, 8)
        out = np.empty((piece.n_frames, 2, 3), np.uint16)
        with pytest.raises(UnreadableFrameError, match=r"b ends in the middle of frame \d: it was cut short") as error:
            piece.read(0, piece.n_frames, out)
        assert error.value.index == first_lost - start
        with pytest.raises(UnreadableFrameError) as error:
            gathered.frames.read(start, 8, np.empty((8 - start, 2, 3), np.uint16))
        assert error.value.index == first_lost
