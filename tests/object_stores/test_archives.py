"""Archives on a real S3 server and on a web server: read like local ones, and never as zeros."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import xarray as xr
import zarr

from frame_archive import ArchiveError, FrameArchive, create_archive
from object_stores import Objects, answer
from pipeline import process


def frames_of(archive):
    out = np.empty((archive.n_frames, *archive.frame_shape), archive.dtype)
    archive.read(0, archive.n_frames, out)
    return out


def test_an_archive_is_read_as_the_local_one(archive, local_archive):
    local, there = FrameArchive.open(local_archive), FrameArchive.open(archive)
    assert np.array_equal(frames_of(there), frames_of(local))
    assert np.array_equal(there.read_dark(0, 100), local.read_dark(0, 100))
    assert there.fingerprint == local.fingerprint
    assert there.stored_bytes(3, 42) == local.stored_bytes(3, 42)
    assert there.missing_chunks(0, 60) == []
    assert np.array_equal(there.frames[7:9], local.frames[7:9])


@pytest.mark.parametrize(
    "layout",
    [
        {"chunks": (4, 24, 20), "shards": (16, 24, 20)},
        {"chunks": (4, 12, 10), "compressors": None},
        {"chunks": (5, 24, 20), "zarr_format": 2},
    ],
    ids=["shards", "tiles", "v2"],
)
def test_other_peoples_layouts_are_read(layout, local_archive, upload, tmp_path, request):
    frames = frames_of(FrameArchive.open(local_archive))
    group = zarr.open_group(tmp_path / "other.zarr", mode="w", zarr_format=layout.pop("zarr_format", 3))
    group.create_array("frames", data=frames, **layout)
    there = FrameArchive.open(upload(tmp_path / "other.zarr", request.node.name.replace("[", "-").rstrip("]")))
    assert np.array_equal(frames_of(there), frames)
    assert there.missing_chunks(0, 60) == []


def test_a_large_chunk_is_fetched_in_parts_at_once(s3, upload, tmp_path):
    values = np.random.default_rng(1).integers(0, 65536, (1, 2200, 2200), np.uint16)
    create_archive(tmp_path / "large.zarr", shape=values.shape, dtype=np.uint16).write_frames(0, values)
    there = FrameArchive.open(upload(tmp_path / "large.zarr", "large.zarr"))
    assert there.stored_bytes(0, 1) > 8 << 20
    assert np.array_equal(frames_of(there), values)


@pytest.mark.slow
def test_a_run_on_the_workers_gives_the_local_runs_dataset(archive, local_archive, client, tmp_path):
    there = process(archive, tmp_path / "there.zarr", client=client, batch_size=20)
    here = process(local_archive, tmp_path / "here.zarr", client=client, batch_size=20)
    assert there.sizes["cluster"] > 100
    xr.testing.assert_equal(there.load(), here.load())
    assert there.attrs["digest"] == here.attrs["digest"]
    assert there.attrs["archive"] == archive


def test_what_pickles_of_an_archive_is_its_address(archive, s3):
    opened = FrameArchive.open(archive)
    content = pickle.dumps(opened) + pickle.dumps(opened.frames.store)
    assert b"AKIA" not in content
    assert b"nobody-may-see" not in content
    assert np.array_equal(frames_of(pickle.loads(pickle.dumps(opened))), frames_of(opened))


def test_a_missing_chunk_is_an_error_and_not_zeros(archive, tmp_path, client):
    answer(Objects.at(archive).delete("frames/c/3/0/0"))
    opened = FrameArchive.open(archive)
    assert opened.missing_chunks(0, 60) == ["frames/c/3/0/0"]
    with pytest.raises(ArchiveError, match=r"frames/c/3/0/0 is missing, with frames 15:20"):
        opened.read(0, 60, np.empty((60, 24, 20), np.uint16))
    with pytest.raises(ArchiveError, match="missing"):
        opened.frames[14:16]
    with pytest.raises(ValueError, match=r"lacks the chunk frames/c/3/0/0"):
        process(archive, tmp_path / "c.zarr", client=client)
    filled = FrameArchive.open(archive, missing_chunks="fill")
    assert not filled.frames[15:20].any()


def test_a_damaged_and_a_swollen_chunk_are_named(archive):
    objects = Objects.at(archive)
    answer(objects.put("frames/c/2/0/0", b"short"))
    opened = FrameArchive.open(archive)
    with pytest.raises(ArchiveError, match=r"s3://.*frames/c/2/0/0, with frames 10:15 of frames, is damaged"):
        opened.read(10, 15, np.empty((5, 24, 20), np.uint16))
    answer(objects.put("frames/c/2/0/0", bytes(1 << 20)))
    with pytest.raises(ArchiveError, match="1048576 bytes"):
        opened.read(10, 15, np.empty((5, 24, 20), np.uint16))


def test_what_is_no_archive_is_said(s3, upload, tmp_path):
    with pytest.raises(ArchiveError, match=r"s3://beamtime/nothing/here.zarr does not exist"):
        FrameArchive.open(f"{s3}/nothing/here.zarr")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/readme.txt").write_text("hello")
    with pytest.raises(ArchiveError, match="is not a Zarr store"):
        FrameArchive.open(upload(tmp_path / "notes", "notes"))


def test_a_missing_bucket_is_said(s3):
    with pytest.raises(ArchiveError, match="there is no such bucket"):
        FrameArchive.open("s3://no-such-bucket/run.zarr")
    with pytest.raises(ArchiveError, match="there is no such bucket"):
        FrameArchive.open("s3://no-such-bucket/run.zarr", missing_chunks="fill")


def test_the_stamp_of_a_batch_changes_with_its_chunks_alone(archive):
    opened = FrameArchive.open(archive)
    before = [opened.stamp(0, 20), opened.stamp(20, 40)]
    objects = Objects.at(archive)
    answer(objects.put("frames/c/5/0/0", bytes(answer(objects.get("frames/c/6/0/0")))))
    assert opened.stamp(0, 20) == before[0]
    assert opened.stamp(20, 40) != before[1]


@pytest.mark.slow
def test_darks_of_another_archive_on_the_store_train_the_pedestal(archive, local_archive, client, tmp_path):
    there = process(local_archive, tmp_path / "c.zarr", client=client, pedestal=archive)
    assert there.attrs["digest"] == process(local_archive, tmp_path / "d.zarr", client=client).attrs["digest"]
    assert "s3://" in json.dumps(there.attrs["pedestal"])
