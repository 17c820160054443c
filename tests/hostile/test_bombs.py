"""A chunk that decodes to far more than a chunk, or says that it does, costs no more than a chunk."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from frame_archive import ArchiveError, FrameArchive
from guarded_zarr import GuardError
from guarded_zarr.bounded_codecs import DECODERS

BOMB = bytes(32 << 20)
CODECS = {
    "blosc": numcodecs.Blosc("lz4"),
    "lz4": numcodecs.LZ4(),
    "zstd": numcodecs.Zstd(),
    "gzip": numcodecs.GZip(),
    "zlib": numcodecs.Zlib(),
    "bz2": numcodecs.BZ2(),
    "lzma": numcodecs.LZMA(preset=0),
}
VALUES = np.arange(3000, dtype=np.uint16).tobytes()


def buffer(content: bytes) -> np.ndarray:
    return np.frombuffer(bytes(content), np.uint8)


def test_these_are_all_the_codecs_that_are_bounded():
    assert set(CODECS) == set(DECODERS)


@pytest.mark.parametrize("name", CODECS)
def test_a_chunk_is_decoded_and_one_byte_too_many_is_refused(name):
    stored = buffer(CODECS[name].encode(VALUES))
    assert DECODERS[name](stored, len(VALUES), {}) == VALUES
    with pytest.raises(GuardError, match=f"decodes to more than the {len(VALUES) - 1} bytes of a chunk"):
        DECODERS[name](stored, len(VALUES) - 1, {})


@pytest.mark.parametrize("name", CODECS)
def test_data_that_is_cut_short_or_none_is_an_error(name):
    stored = bytes(CODECS[name].encode(VALUES))
    for content in (b"", b"\x00", stored[:3], stored[:20], stored[: len(stored) // 2], stored[:-1], bytes(100)):
        try:
            decoded = DECODERS[name](buffer(content), len(VALUES), {})
        except Exception:
            continue
        assert decoded in (b"", VALUES) or name == "blosc"


@pytest.mark.parametrize("size", [0x7FFFFFFF, 1 << 31, 1 << 45, 0xFFFFFFFF, 0])
def test_lengths_that_lie_are_refused(size):
    blosc = bytearray(CODECS["blosc"].encode(VALUES))
    blosc[4:8] = struct.pack("<I", size & 0xFFFFFFFF)
    if size & 0xFFFFFFFF > len(VALUES):
        with pytest.raises(GuardError, match="decodes to more"):
            DECODERS["blosc"](buffer(blosc), len(VALUES), {})
    for where in (8, 12):  # the length of a block, and of the whole
        lying = bytearray(CODECS["blosc"].encode(VALUES))
        lying[where : where + 4] = struct.pack("<I", size & 0xFFFFFFFF)
        with pytest.raises((GuardError, RuntimeError)):
            DECODERS["blosc"](buffer(lying), len(VALUES), {})
    lz4 = struct.pack("<I", size & 0xFFFFFFFF) + bytes(CODECS["lz4"].encode(VALUES))[4:]
    with pytest.raises((GuardError, RuntimeError)):
        DECODERS["lz4"](buffer(lz4), len(VALUES), {})
    frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, size) + b"\x01\x00\x00"
    with pytest.raises((GuardError, RuntimeError)):
        DECODERS["zstd"](buffer(frame), len(VALUES), {})


def zstd_without_its_length(n_blocks: int, block: int, n_last: int) -> bytes:
    """A Zstandard frame of blocks of one byte repeated, which does not say how much it comes to (RFC 8878)."""
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)
    for i in range(n_blocks + 1):
        size, last = (n_last, 1) if i == n_blocks else (block, 0)
        frame += (size << 3 | 1 << 1 | last).to_bytes(3, "little") + b"\x07"
    return frame


def test_zstandard_that_does_not_say_its_length_is_bounded_by_its_blocks():
    whole = zstd_without_its_length(3, 1000, 500)
    assert DECODERS["zstd"](buffer(whole), 3500, {}) == b"\x07" * 3500
    with pytest.raises(GuardError, match="decodes to more"):
        DECODERS["zstd"](buffer(zstd_without_its_length(100_000, 128 << 10, 0)), 3500, {})
    with pytest.raises(GuardError, match="not one whole"):
        DECODERS["zstd"](buffer(whole + whole), 3500, {})


LAYOUTS = {
    "blosc": ({"compressors": [BloscCodec()]}, "blosc", "c/1/0/0"),
    "gzip": ({"compressors": [GzipCodec()]}, "gzip", "c/1/0/0"),
    "zstd": ({"compressors": [ZstdCodec()]}, "zstd", "c/1/0/0"),
    "half frames": ({"compressors": [BloscCodec()], "chunks": (20, 6, 10)}, "blosc", "c/1/0/0"),
    "version 2, blosc": ({"zarr_format": 2, "compressors": CODECS["blosc"]}, "blosc", "1.0.0"),
    "version 2, zlib": ({"zarr_format": 2, "compressors": CODECS["zlib"]}, "zlib", "1.0.0"),
    "version 2, bz2": ({"zarr_format": 2, "compressors": CODECS["bz2"]}, "bz2", "1.0.0"),
    "version 2, lzma": ({"zarr_format": 2, "compressors": CODECS["lzma"]}, "lzma", "1.0.0"),
    "version 2, lz4": ({"zarr_format": 2, "compressors": CODECS["lz4"]}, "lz4", "1.0.0"),
    "version 2, zstd": ({"zarr_format": 2, "compressors": CODECS["zstd"]}, "zstd", "1.0.0"),
    "version 2, zlib as a filter": (
        {"zarr_format": 2, "compressors": None, "filters": [CODECS["zlib"]]}, "zlib", "1.0.0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bomb_in_the_place_of_a_chunk_is_an_error_that_names_it_and_takes_little_memory(tmp_path, tools, layout):
    options, codec, key = LAYOUTS[layout]
    options = {"chunks": (20, 12, 10)} | options
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=options.pop("zarr_format", 3))
    group.create_array("frames", data=tools.arrays.frames, **options)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    frames = np.empty_like(tools.arrays.frames)
    archive.read(0, 30, frames)
    np.testing.assert_array_equal(frames, tools.arrays.frames)
    chunk = tmp_path / "a.zarr" / "frames" / key
    bomb = bytes(CODECS[codec].encode(BOMB))
    chunk.write_bytes(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"is damaged or cut short: it (decodes to|has)") as caught:
            archive.read(0, 30, frames)
        assert tracemalloc.get_traced_memory()[1] < len(BOMB) // 8
    finally:
        tracemalloc.stop()
    assert str(chunk) in str(caught.value)


def test_a_bomb_in_a_mask_that_is_given_costs_no_more_than_a_mask(tools, tmp_path):
    archive = tools.make_archive(tmp_path / "a.zarr", tools.arrays)
    np.savez_compressed(tmp_path / "shape.npz", mask=np.zeros((3000, 3000), np.uint8))
    # A header of the right shape, before far more values.
    np.savez_compressed(tmp_path / "tail.npz", mask=np.zeros((12, 10), bool))
    header = zipfile.ZipFile(tmp_path / "tail.npz").read("mask.npy")[:128]
    with zipfile.ZipFile(tmp_path / "tail.npz", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("mask.npy", header + BOMB)
    (tmp_path / "tail.npy").write_bytes(header + BOMB)
    (tmp_path / "long.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + b"{" * 1000)
    for name in ("shape.npz", "tail.npz", "tail.npy", "long.npy"):
        outcome = tools.photonflow("process", archive, "--dry-run", "--mask", tmp_path / name)
        outcome.require_clean()
        assert outcome.code == 1
        assert name in outcome.stderr
