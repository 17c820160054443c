"""A chunk that is missing, damaged or cut short is an error that names its file and frames, never zeros."""

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec

from frame_archive import ArchiveError, FrameArchive

BLOSC = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=2)
VERSION_2 = {"zarr_format": 2, "compressors": Blosc("lz4")}
FLAT = {"chunk_key_encoding": {"name": "v2", "separator": "."}}
NESTED = {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
LAYOUTS = {
    "default": ("c/1/0/0", {"compressors": [BLOSC, Crc32cCodec()]}),
    "no checksum": ("c/1/0/0", {"compressors": [BLOSC]}),
    "uncompressed": ("c/1/0/0", {"compressors": None}),
    "uncompressed with a checksum": ("c/1/0/0", {"compressors": [Crc32cCodec()]}),
    "gzip": ("c/1/0/0", {"compressors": [GzipCodec()]}),
    "version 2": ("1.0.0", VERSION_2 | FLAT),
    "version 2, nested": ("1/0/0", VERSION_2 | NESTED),
    "chunked in y": ("c/1/1/0", {"compressors": [BLOSC, Crc32cCodec()], "chunks": (20, 6, 13)}),
    "sharded": ("c/1/0/0", {"compressors": [BLOSC, Crc32cCodec()], "chunks": (5, 11, 13), "shards": (20, 11, 13)}),
}


@pytest.fixture(params=LAYOUTS)
def stored(request, tmp_path, frames):
    """A store in some layout, and the file of the chunk with frames 20:40 that the tests damage."""
    key, options = LAYOUTS[request.param]
    options = {"chunks": (20, 11, 13)} | options
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=options.pop("zarr_format", 3))
    group.create_array("frames", shape=frames.shape, dtype="u2", **options)[:] = frames
    file = tmp_path / "a.zarr" / "frames" / key
    assert file.exists()
    return tmp_path / "a.zarr", file


def failure(path, start=0, stop=50) -> str:
    archive = FrameArchive.open(path)
    with pytest.raises(ArchiveError) as caught:
        archive.read(start, stop, np.empty((stop - start, 11, 13), np.uint16))
    return str(caught.value)


def test_a_missing_chunk_is_an_error_and_not_zeros(stored, frames):
    path, file = stored
    file.unlink()
    archive = FrameArchive.open(path)
    for start, stop in [(0, 50), (20, 40), (39, 40), (25, 28)]:
        message = failure(path, start, stop)
        assert message.startswith(f"{file} is missing, with frames ")
        assert "--missing-chunks fill" in message
    assert "with frames 20:40 of frames" in message or "with frames 25:28 of frames" in message
    assert archive.missing_chunks(0, 50) == [str(file.relative_to(path))]
    assert archive.missing_chunks(0, 20) == archive.missing_chunks(40, 50) == []
    with pytest.raises(ArchiveError, match="missing"):
        archive.frames[30]
    out = np.empty((20, 11, 13), np.uint16)
    archive.read(0, 20, out)
    np.testing.assert_array_equal(out, frames[:20])


def test_a_missing_chunk_reads_as_the_fill_value_when_asked(stored, frames):
    path, file = stored
    file.unlink()
    archive = FrameArchive.open(path, missing_chunks="fill")
    out = np.full((50, 11, 13), 7, np.uint16)
    archive.read(0, 50, out)
    expected = frames.copy()
    expected[20:40, 6 if "c/1/1" in str(file) else 0 :] = 0
    np.testing.assert_array_equal(out, expected)
    assert len(archive.missing_chunks(0, 50)) == 1


@pytest.mark.parametrize("kept", [0, 3, 10, 0.5, -1])
def test_a_chunk_cut_short_is_an_error(stored, kept):
    path, file = stored
    whole = file.read_bytes()
    length = int(len(whole) * kept) if isinstance(kept, float) else kept % len(whole)
    file.write_bytes(whole[:length])
    message = failure(path)
    assert message.startswith(f"{file}, with frames 20:40 of frames, is damaged or cut short: ")


def test_a_flipped_bit_is_an_error_where_there_is_a_checksum(stored):
    path, file = stored
    codecs = (path / "frames" / "zarr.json").read_text() if (path / "frames" / "zarr.json").exists() else ""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)
    if "crc32c" in codecs.partition("index_codecs")[0]:
        assert f"{file}, with frames 20:40 of frames, is damaged" in failure(path)
    elif "gzip" in codecs:
        assert "is damaged" in failure(path)


def test_a_chunk_of_another_length_is_an_error(tmp_path, frames):
    for name, length in {"long": 25, "short": 15}.items():
        path = tmp_path / f"{name}.zarr"
        for store, rows in {"right": 20, "wrong": length}.items():
            array = zarr.create_group(path / store).create_array(
                "frames", shape=(2 * rows, 11, 13), chunks=(rows, 11, 13), dtype="u2", compressors=[BLOSC]
            )
            array[:] = frames[: 2 * rows]
        file = path / "right" / "frames" / "c" / "1" / "0" / "0"
        (path / "wrong" / "frames" / "c" / "1" / "0" / "0").replace(file)
        archive = FrameArchive.open(path / "right")
        with pytest.raises(ArchiveError, match=f"decodes to {length * 11 * 13 * 2} bytes where 5720 are due"):
            archive.read(20, 40, np.empty((20, 11, 13), np.uint16))


def test_an_inner_chunk_left_out_of_a_shard_is_an_error(tmp_path, frames):
    group = zarr.create_group(tmp_path / "a.zarr")
    array = group.create_array(
        "frames", shape=frames.shape, dtype="u2", chunks=(5, 6, 13), shards=(20, 12, 13), compressors=[BLOSC]
    )
    array[:] = frames
    array[25:30, 6:] = 0
    archive = FrameArchive.open(tmp_path / "a.zarr")
    missing = ["frames/c/1/0/0 (inner chunk 5/1/0)"]
    assert archive.missing_chunks(0, 50) == archive.missing_chunks(29, 30) == missing
    assert archive.missing_chunks(0, 25) == archive.missing_chunks(30, 50) == []
    with pytest.raises(ArchiveError, match=r"c/1/0/0 \(inner chunk 5/1/0\) is missing, with frames 25:30"):
        archive.read(25, 30, np.empty((5, 11, 13), np.uint16))
    archive.read(30, 50, np.empty((20, 11, 13), np.uint16))


def test_darks_are_held_to_the_same(written):
    file = written / "dark" / "c" / "0" / "0" / "0"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ArchiveError, match="with frames 0:3 of dark, is damaged or cut short"):
        FrameArchive.open(written).read_dark(0, 3)
    file.unlink()
    with pytest.raises(ArchiveError, match=f"{file} is missing, with frames 0:3 of dark"):
        FrameArchive.open(written).read_dark(0, 3)
    with pytest.raises(ArchiveError, match="chunk dark/c/0/0/0 is missing"):
        FrameArchive.open(written).dark[0:3]


def test_a_folder_in_the_place_of_a_chunk_cannot_be_read(written):
    file = written / "frames" / "c" / "1" / "0" / "0"
    file.unlink()
    file.mkdir()
    assert failure(written) == f"{file}, with frames 20:40 of frames, cannot be read: Is a directory"


def test_a_buffer_or_range_that_does_not_fit_is_refused(written):
    archive = FrameArchive.open(written)
    right = np.empty((5, 11, 13), np.uint16)
    for wrong in (right[:4], right.astype(np.int32), right.astype(">u2"), np.empty((5, 11, 26), np.uint16)[:, :, ::2]):
        with pytest.raises(ValueError, match=r"frames 0:5 need a writable C-ordered buffer of \(5, 11, 13\) uint16"):
            archive.read(0, 5, wrong)
    right.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        archive.read(0, 5, right)
    for start, stop in [(-1, 4), (46, 51), (5, 0)]:
        with pytest.raises(ValueError, match="is not among them"):
            archive.read(start, stop, np.empty((5, 11, 13), np.uint16))
