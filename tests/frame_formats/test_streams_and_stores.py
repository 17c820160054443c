"""Streams of frames without headers, and other people's Zarr stores."""

from __future__ import annotations

import os

import numpy as np
import pytest
import xarray as xr
import zarr

from frame_archive import create_archive
from frame_formats import SourceError, SourceOptions, files_meant, gather, open_source
from frame_formats.stream import moench03_pixel_map, pixel_map_of


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", "u1", "<f4"])
@pytest.mark.parametrize(("before", "at_start"), [(0, 0), (24, 0), (0, 100), (6, 50)])
def test_streams_are_read_as_they_are_described(tmp_path, frames, read, dtype, before, at_start):
    frames = (frames % 250).astype(dtype)
    content = b"x" * at_start + b"".join(b"h" * before + frame.tobytes() for frame in frames)
    (tmp_path / "a.dat").write_bytes(content)
    options = SourceOptions((12, 10), np.dtype(dtype), before, at_start)
    np.testing.assert_array_equal(read(open_source(tmp_path / "a.dat", None, options).frames), frames)


def test_a_pixel_map_puts_values_where_they_belong(tmp_path, frames, read):
    places = np.random.default_rng(2).permutation(120).reshape(12, 10)
    np.save(tmp_path / "map.npy", places)
    (tmp_path / "a.raw").write_bytes(frames.tobytes())
    options = SourceOptions(dtype=np.dtype("<u2"), pixel_map=pixel_map_of(str(tmp_path / "map.npy")))
    got = read(open_source(tmp_path / "a.raw", None, options).frames)
    np.testing.assert_array_equal(got, frames.reshape(7, 120)[:, places])


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (np.zeros((12, 10), np.int64), "does not name each of its 120 values once"),
        (np.arange(120), "a map is (y, x) integers"),
        (np.zeros((12, 10)), "a map is (y, x) integers"),
    ],
)
def test_a_map_that_loses_a_pixel_is_refused(tmp_path, places, words):
    np.save(tmp_path / "map.npy", places)
    with pytest.raises(SourceError) as error:
        pixel_map_of(str(tmp_path / "map.npy"))
    assert words in str(error.value)


def test_the_map_of_a_moench_03_names_each_value_once():
    places = moench03_pixel_map()
    assert places.shape == (400, 400)
    assert np.array_equal(np.sort(places, axis=None), np.arange(160_000))


def test_a_stream_that_is_cut_short_or_described_wrongly_says_so(tmp_path, frames):
    (tmp_path / "a.raw").write_bytes(frames.tobytes()[:-1])
    opened = open_source(tmp_path / "a.raw", None, SourceOptions((12, 10), np.dtype("<u2")))
    assert opened.frames.n_frames == 6
    assert "ends in the middle of a frame: 239 bytes follow the last of 6 whole frames" in opened.facts.ended_early
    assert "or its frames are not 12×10 uint16 with 0 bytes before" in opened.facts.ended_early


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_a_stream_in_the_other_byte_order_is_told(tmp_path, dtype):
    frames = np.random.default_rng(0).normal(1000, 5, (3, 12, 10)).astype(dtype)
    (tmp_path / "a.raw").write_bytes(frames.tobytes())
    right = open_source(tmp_path / "a.raw", None, SourceOptions((12, 10), np.dtype(dtype)))
    assert right.facts.problems == ()
    other = np.dtype(dtype).newbyteorder("S")
    wrong = open_source(tmp_path / "a.raw", None, SourceOptions((12, 10), other))
    assert wrong.facts.problems == (
        f"{tmp_path}/a.raw looks as if it were in the other byte order: neighbouring pixels differ much less with "
        f"--dtype '{dtype}'",
    )


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(SourceError, match=r"pipe\.npy is no file but a pipe or a device"):
        open_source(tmp_path / "pipe.npy")


def test_archives_are_sources_with_darks_mask_numbers_and_attributes(tmp_path, frames, read):
    mask = np.zeros((12, 10), np.uint32)
    mask[2, 3] = 4
    writer = create_archive(
        tmp_path / "a.zarr", frames.shape, frames.dtype, n_dark=7, pixel_mask=mask, frames_per_chunk=3,
        frame_numbers=np.arange(50, 57), attrs={"exposure_s": 0.5},
    )  # fmt: skip
    for name, values in (("frame_status", np.arange(7, dtype=np.uint8)), ("timestamp", np.arange(7) * 10)):
        writer.add_array(name, (7,), values.dtype, (7,), ("frame",))
        writer.write(name, 0, values)
    writer.write_frames(0, frames)
    writer.write_dark(0, frames[::-1])
    assert files_meant([str(tmp_path / "a.zarr")]) == [(tmp_path / "a.zarr", None)]
    gathered = gather([open_source(tmp_path / "a.zarr")])
    np.testing.assert_array_equal(read(gathered.frames), frames)
    np.testing.assert_array_equal(read(gathered.dark), frames[::-1])
    np.testing.assert_array_equal(gathered.pixel_mask, mask)
    assert gathered.frame_numbers.tolist() == list(range(50, 57))
    assert gathered.attrs == {"exposure_s": 0.5}
    assert gathered.frame_status.tolist() == list(range(7))
    assert gathered.columns["timestamp"].tolist() == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stores_of_xarray_and_zarr_are_read_by_the_name_of_their_array(tmp_path, frames, values, zarr_format):
    dataset = xr.Dataset({"images": (("time", "row", "col"), frames.astype(">u2"))})
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=False)
    np.testing.assert_array_equal(values(tmp_path / "a.zarr", "images"), frames)
    with pytest.raises(SourceError, match="choose one of its 3-D integer arrays with --frames-path"):
        open_source(tmp_path / "a.zarr")


def test_a_missing_chunk_is_told_by_its_first_frame(tmp_path, frames, read):
    array = zarr.create_array(tmp_path / "a.zarr", shape=frames.shape, chunks=(2, 12, 10), dtype=frames.dtype)
    array[:] = frames
    (tmp_path / "a.zarr" / "c" / "2" / "0" / "0").unlink()
    with pytest.raises(ValueError, match=r"c/2/0/0") as error:
        read(open_source(tmp_path / "a.zarr").frames, step=7)
    assert error.value.index == 4
