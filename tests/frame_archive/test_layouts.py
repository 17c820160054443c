"""Whatever the store's layout, the frames are read as they were written."""

import numpy as np
import pytest
import xarray as xr
import zarr
from numcodecs import Blosc, Zlib
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

from frame_archive import ArchiveError, FrameArchive

BLOSC = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=2)
ZSTD_IN_BLOSC = BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=2)
VERSION_3 = {
    "default": {"chunks": (20, 11, 13), "compressors": [BLOSC, Crc32cCodec()]},
    "blosc": {"chunks": (20, 11, 13), "compressors": [ZSTD_IN_BLOSC]},
    "uncompressed": {"chunks": (20, 11, 13), "compressors": None},
    "uncompressed with a checksum": {"chunks": (20, 11, 13), "compressors": [Crc32cCodec()]},
    "zstd": {"chunks": (7, 11, 13), "compressors": [ZstdCodec()]},
    "gzip": {"chunks": (7, 11, 13), "compressors": [GzipCodec()]},
    "sharded": {"chunks": (5, 11, 13), "shards": (20, 11, 13), "compressors": [BLOSC]},
    "sharded in y and x": {"chunks": (5, 6, 7), "shards": (20, 12, 14), "compressors": [BLOSC]},
    "chunked in y and x": {"chunks": (20, 6, 7), "compressors": [BLOSC, Crc32cCodec()]},
    "one frame a chunk": {"chunks": (1, 11, 13), "compressors": [BLOSC]},
    "one chunk": {"chunks": (50, 11, 13), "compressors": [BLOSC]},
    "chunks larger than the frame": {"chunks": (20, 16, 16), "compressors": [BLOSC]},
    "big-endian": {"chunks": (20, 11, 13), "serializer": BytesCodec(endian="big"), "compressors": [BLOSC]},
    "flat keys": {
        "chunks": (20, 11, 13),
        "compressors": [BLOSC],
        "chunk_key_encoding": {"name": "default", "separator": "."},
    },
}


def check(path, frames, read_all):
    archive = FrameArchive.open(path)
    assert archive.n_frames == 50
    assert archive.frame_shape == (11, 13)
    assert archive.dtype == np.dtype(np.uint16)
    assert archive.dtype.isnative
    np.testing.assert_array_equal(read_all(archive), frames)
    for a, b in [(0, 1), (19, 21), (20, 40), (3, 18), (41, 50), (50, 50)]:
        out = np.full((b - a, 11, 13), 7, np.uint16)
        archive.read(a, b, out)
        np.testing.assert_array_equal(out, frames[a:b])
    np.testing.assert_array_equal(archive.frames[18:44], frames[18:44])
    assert archive.missing_chunks(0, 50) == []
    assert archive.stored_bytes(0, 50) > 0


@pytest.mark.parametrize("layout", VERSION_3)
def test_a_version_3_store_is_read_as_written(tmp_path, frames, read_all, layout):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("frames", shape=frames.shape, dtype=frames.dtype, **VERSION_3[layout])[:] = frames
    check(tmp_path / "a.zarr", frames, read_all)


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
@pytest.mark.parametrize("compressor", [Blosc("lz4", shuffle=2), Zlib(), None], ids=["blosc", "zlib", "uncompressed"])
def test_a_version_2_store_is_read_as_written(tmp_path, frames, read_all, separator, dtype, compressor):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    array = group.create_array(
        "frames",
        shape=frames.shape,
        dtype=dtype,
        chunks=(20, 11, 13),
        compressors=compressor,
        chunk_key_encoding={"name": "v2", "separator": separator},
    )
    array[:] = frames
    check(tmp_path / "a.zarr", frames, read_all)


def test_a_version_2_store_in_fortran_order_is_read_as_written(tmp_path, frames, read_all):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("frames", shape=frames.shape, dtype="<u2", chunks=(20, 11, 13), order="F")[:] = frames
    check(tmp_path / "a.zarr", frames, read_all)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_bare_array_is_an_archive(tmp_path, frames, read_all, zarr_format):
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=frames.shape, dtype="u2", chunks=(20, 11, 13), zarr_format=zarr_format
    )
    array[:] = frames
    array.attrs["detector"] = "a small one"
    check(tmp_path / "a.zarr", frames, read_all)
    assert FrameArchive.open(tmp_path / "a.zarr").attrs == {"detector": "a small one"}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_an_xarray_store_is_read_raw_without_applying_scale_or_fill_value(tmp_path, frames, read_all, zarr_format):
    dataset = xr.Dataset(
        {"frames": (("frame", "y", "x"), frames)},
        coords={"frame": np.arange(50) * 0.1, "x": np.arange(13) * 25.0, "y": np.arange(11) * 25.0},
        attrs={"detector": "a small one"},
    )
    dataset["frames"].attrs |= {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": int(frames[0, 0, 0])}
    encoding = {"frames": {"chunks": (20, 11, 13)}}
    dataset["frames"].attrs.pop("_FillValue")
    if zarr_format == 2:
        encoding["frames"]["_FillValue"] = frames[0, 0, 0]
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, encoding=encoding)
    check(tmp_path / "a.zarr", frames, read_all)
    assert FrameArchive.open(tmp_path / "a.zarr").attrs["detector"] == "a small one"


PLAIN = {}
HALVED = {"scale_factor": 0.5, "add_offset": 3.0}


def packed(path, frames, zarr_format, packing):
    dataset = xr.Dataset({name: ((f"{name}_number", "y", "x"), frames * 0.5 + 3) for name in packing})
    encoding = {name: {"dtype": "i2", "_FillValue": -1} | options for name, options in packing.items()}
    dataset.to_zarr(path, zarr_format=zarr_format, encoding=encoding, consolidated=False)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_darks_that_xarray_packed_otherwise_than_the_frames_are_refused(tmp_path, frames, zarr_format):
    path = packed(tmp_path / "a.zarr", frames, zarr_format, {"frames": HALVED, "dark": PLAIN})
    expected = (
        f"{path / 'frames'} is packed with scale_factor 0.5 and add_offset 3.0, but {path / 'dark'} with scale_factor "
        "1 and add_offset 0, and values are read as stored: store both as the detector's integers"
    )
    with pytest.raises(ArchiveError) as caught:
        FrameArchive.open(path)
    assert str(caught.value) == expected
    packed(tmp_path / "b.zarr", frames, zarr_format, {"frames": PLAIN, "dark": {"add_offset": 3.0}})
    with pytest.raises(ArchiveError, match=r"dark with scale_factor 1 and add_offset 3\.0"):
        FrameArchive.open(tmp_path / "b.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "packing",
    [
        {"frames": HALVED, "dark": HALVED},
        {"frames": {"scale_factor": 1.0, "add_offset": 0.0}, "dark": PLAIN},
        {"frames": HALVED},
    ],
)
def test_darks_packed_like_the_frames_are_read_as_stored(tmp_path, frames, zarr_format, packing):
    archive = FrameArchive.open(packed(tmp_path / "a.zarr", frames, zarr_format, packing))
    stored = np.empty(frames.shape, archive.dtype)
    archive.read(0, 50, stored)
    np.testing.assert_array_equal(stored, frames if packing["frames"] == HALVED else np.rint(frames * 0.5 + 3))
    if "dark" in packing:
        np.testing.assert_array_equal(archive.read_dark(0, 50), stored)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i2", "i4", ">i4"])
def test_every_integer_type_of_the_finder_is_read_in_native_byte_order(tmp_path, dtype):
    values = np.random.default_rng(1).integers(0, 100, (5, 3, 4)).astype(dtype)
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("frames", shape=values.shape, dtype=dtype, chunks=(2, 3, 4))[:] = values
    archive = FrameArchive.open(tmp_path / "a.zarr")
    assert archive.dtype == np.dtype(dtype).newbyteorder("=")
    out = np.empty(values.shape, archive.dtype)
    archive.read(0, 5, out)
    np.testing.assert_array_equal(out, values)


def test_frames_lie_anywhere_in_a_group_with_their_darks_and_mask_beside_them(tmp_path, frames, read_all):
    root = zarr.create_group(tmp_path / "a.zarr")
    run = root.create_group("entry").create_group("run 1", attributes={"exposure_s": 0.1})
    mask = np.zeros((11, 13), np.int64)
    mask[2, 3] = 2
    for name, values in {"data": frames, "dark": frames[:4].astype(">i4"), "pixel_mask": mask}.items():
        run.create_array(name, data=values, chunks=(4, *values.shape[1:]))
    archive = FrameArchive.open(tmp_path / "a.zarr", frames_path="/entry/run 1/data/")
    np.testing.assert_array_equal(read_all(archive), frames)
    np.testing.assert_array_equal(archive.read_dark(1, 3), frames[1:3])
    np.testing.assert_array_equal(archive.pixel_mask, mask)
    assert archive.attrs == {"exposure_s": 0.1}
