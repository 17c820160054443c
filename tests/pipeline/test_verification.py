"""``--verify``: what a run goes on with is held against the frames themselves, not against the times of their files."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from cluster_store import dataset_status
from pipeline import ResumeError, RunOptions, execute, prepare
from pipeline.resuming.journal import journal_folder


class BrokenOffError(Exception):
    """What breaks a run off."""


def start(archive, client, after=None, **options):
    def stop(progress):
        if progress.batches == after:
            raise BrokenOffError

    prepared = prepare(RunOptions(archive.path, batch_size=10, **options))
    # Chunks of the dataset so small that some are written before the end.
    prepared = replace(prepared, layout=replace(prepared.layout, rows_per_chunk=16))
    return execute(prepared, client, on_progress=stop)


def break_off(archive, client, after, **options):
    with pytest.raises(BrokenOffError):
        start(archive, client, after, **options)


def keep_times(archive, change):
    """Change the archive so that its files' sizes and times say nothing of it."""
    files = [path for path in Path(archive.path).rglob("*") if path.is_file()]
    before = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
    change()
    for path, (size, modified) in before.items():
        os.utime(path, ns=(modified, modified))
        assert path.stat().st_size == size


@pytest.fixture
def plain(make_archive):
    """An archive whose chunks have the same size whatever is in them."""
    archive = make_archive(n_frames=60)
    group = zarr.open_group(archive.path, mode="r+")
    group.create_array("frames", data=archive.frames, chunks=(20, 20, 30), compressors=None, overwrite=True)
    return archive


def test_a_copy_with_other_times_is_gone_on_with(client, make_archive):
    archive = make_archive(n_frames=60)
    break_off(archive, client, 3, verify=True)
    copy = Path(archive.path).with_name("copy.zarr")
    shutil.copytree(archive.path, copy, copy_function=shutil.copyfile)
    shutil.rmtree(archive.path)
    copy.rename(archive.path)
    with pytest.raises(ResumeError, match="other sizes or times"):
        start(archive, client, resume=True)
    result = start(archive, client, resume=True, verify=True)
    assert result.summary.frames + result.summary.frames_kept == 60
    np.testing.assert_array_equal(xr.open_zarr(archive.out).n_clusters, archive.reference(10)["n_clusters"])


def test_a_change_that_no_size_or_time_tells_is_refused_with_the_first_batch(client, plain):
    break_off(plain, client, 4, verify=True, tracking="chain")

    def brighten():
        frames = zarr.open_group(plain.path, mode="r+")["frames"]
        for frame in (15, 25):
            frames[frame, 3, 4] = int(frames[frame, 3, 4]) + 1

    keep_times(plain, brighten)
    with pytest.raises(ResumeError, match=r"the frames of batch 1 \(frames 10:20\) are not what they were"):
        start(plain, client, resume=True, verify=True, tracking="chain")
    # By sizes and times nothing is wrong.
    start(plain, client, resume=True, tracking="chain")


def test_a_complete_dataset_is_verified_too(client, plain):
    start(plain, client, verify=True)
    assert not journal_folder(plain.out).exists()
    assert start(plain, client, resume=True, verify=True).was_complete
    chunk = Path(plain.path) / "frames" / "c" / "2" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(ResumeError, match=r"the frames of batch 4 \(frames 40:50\) can't be read again: .*c/2/0/0"):
        start(plain, client, resume=True, verify=True)
    assert dataset_status(plain.out) == "complete"


@pytest.mark.parametrize("ended", [False, True])
def test_where_no_digest_was_taken_that_is_said(client, make_archive, ended):
    archive = make_archive(n_frames=60)
    if ended:
        start(archive, client)
    else:
        break_off(archive, client, 2)
    with pytest.raises(ResumeError, match=r"can't be verified: batch \d .* was found without --verify"):
        start(archive, client, resume=True, verify=True)
    start(archive, client, resume=True)
    assert "frames_xxh3" not in xr.open_zarr(archive.out, group="batches", decode_times=False)
