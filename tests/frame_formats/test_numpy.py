"""NPY and NPZ files."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy_format

from frame_formats import SourceError, open_source


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", ">i4", "u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_are_read_value_by_value_in_either_byte_order_and_memory_order(
    tmp_path, frames, values, dtype, order
):
    frames = (frames % 251).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", frames)
    got = values(tmp_path / "a.npy")
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(got, frames)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_npy_file_of_one_image_is_one_frame(tmp_path, frames, values, order):
    np.save(tmp_path / "a.npy", np.asarray(frames[2], order=order))
    np.testing.assert_array_equal(values(tmp_path / "a.npy"), frames[2:3])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_are_read_in_any_order_of_ranges(tmp_path, frames, save):
    save(tmp_path / "a.npz", frames=frames.astype(">u2"), other=np.zeros(3))
    source = open_source(tmp_path / "a.npz").frames
    for start, stop in ((4, 7), (0, 2), (1, 5)):
        out = np.empty((stop - start, 12, 10), np.uint16)
        source.read(start, stop, out)
        np.testing.assert_array_equal(out, frames[start:stop])


def test_of_several_arrays_in_an_npz_file_one_is_named(tmp_path, frames, values):
    np.savez(tmp_path / "a.npz", run=frames, dark=frames[::-1])
    with pytest.raises(SourceError, match=r"choose one with .*a\.npz::NAME, of run \(7, 12, 10\) uint16, dark"):
        open_source(tmp_path / "a.npz")
    np.testing.assert_array_equal(values(tmp_path / "a.npz", "dark"), frames[::-1])
    with pytest.raises(SourceError, match="holds no array 'light'"):
        open_source(tmp_path / "a.npz", "light")


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_an_npy_file_that_is_cut_short_gives_the_whole_frames_before(tmp_path, frames, read, kept):
    path = tmp_path / "a.npy"
    np.save(path, frames)
    content = path.read_bytes()
    n = int(7 * kept)
    path.write_bytes(content[: len(content) - frames.nbytes + int(kept * frames.nbytes)])
    if n == 0:
        with pytest.raises(SourceError, match=r"a\.npy holds no whole frame: .* is cut short: 0 of its 7 frames"):
            open_source(path)
        return
    opened = open_source(path)
    np.testing.assert_array_equal(read(opened.frames), frames[:n])
    assert opened.facts.ended_early == f"{path} is cut short: {n} of its 7 frames are there"
    assert opened.facts.n_lost == 7 - n


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x93NUMPY\x01\x00\x76\x00{'descr'", "is not a whole NPY file"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': ('<u2'\n", "is damaged"),
        (b"PK\x03\x04 and no more", "is not a whole NPZ file"),
        (b"nothing that is known", "is of no format that is known here: it does not begin as a whole .npy file does"),
    ],
)
def test_what_is_no_file_of_frames_is_said_in_a_sentence(tmp_path, content, words):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(SourceError) as error:
        open_source(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_npz_file_that_claims_more_frames_than_it_holds_gives_those_that_are_there(
    tmp_path, frames, read, compression
):
    header = io.BytesIO()
    npy_format.write_array_header_1_0(header, {"descr": "<u2", "fortran_order": False, "shape": (10**9, 12, 10)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as file:
        file.writestr("frames.npy", header.getvalue() + frames.tobytes()[:-7])
    opened = open_source(tmp_path / "a.npz")
    np.testing.assert_array_equal(read(opened.frames), frames[:6])
    assert opened.facts.ended_early == f"{tmp_path}/a.npz::frames is cut short: 6 of its 1,000,000,000 frames are there"
    assert opened.facts.n_lost == 10**9 - 6


def test_a_damaged_packed_array_is_an_error_as_a_whole(tmp_path, frames, read):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, frames=np.random.default_rng(0).integers(0, 60_000, (40, 64, 64)).astype(np.uint16))
    content = bytearray(path.read_bytes())
    content[200_000:200_100] = bytes(100)
    path.write_bytes(content)
    source = open_source(path).frames
    with pytest.raises(SourceError, match=r"a\.npz is damaged: "):
        read(source)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([{}, None]), "holds Python objects"),
        (np.zeros((2, 3, 4, 5), np.uint16), r"has the shape (2, 3, 4, 5): frames are three-dimensional"),
        (np.zeros((3, 4, 5), complex), "holds complex128 values"),
        (np.zeros((0, 4, 5), np.uint16), "holds no whole frame: it is empty"),
    ],
)
def test_arrays_that_are_no_frames_are_refused(tmp_path, array, words):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(SourceError) as error:
        open_source(tmp_path / "a.npy")
    assert words in str(error.value)
