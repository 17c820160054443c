"""Whose fault a failure is: the batch's own, or the machine's."""

from __future__ import annotations

import errno
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest

from cluster_store import DatasetError, FrameStatus
from frame_archive import ArchiveError, FrameArchive
from pipeline.errors import OutputError
from pipeline.faults import reading_frames, status_of, writing


@pytest.mark.parametrize("broken", ["cut", "gone"])
def test_a_damaged_or_missing_file_makes_its_frames_unreadable(make_archive, broken):
    archive = FrameArchive.open(make_archive().path)
    chunk = Path(archive.address.path) / "frames" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3]) if broken == "cut" else chunk.unlink()
    with pytest.raises(ArchiveError) as raised, reading_frames():
        archive.read(0, 5, np.empty((5, 20, 30), np.uint16))
    # As it comes from a worker.
    assert status_of(pickle.loads(pickle.dumps(raised.value))) is FrameStatus.UNREADABLE


def test_a_machine_without_open_files_left_is_not_the_batchs_fault(make_archive):
    archive = FrameArchive.open(make_archive().path)
    frames = np.empty((5, 20, 30), np.uint16)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(OutputError, match=r"Too many open files.*ulimit -n") as raised, reading_frames():
            archive.read(0, 5, frames)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert status_of(pickle.loads(pickle.dumps(raised.value))) is None


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room there"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "writable"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "disk is there"),
    ],
)
def test_what_the_system_refuses_to_write_ends_in_one_sentence_with_what_to_do(number, remedy):
    sentence = f"^/data/c.zarr can't be written: {os.strerror(number)}; .*{remedy}"
    with pytest.raises(OutputError, match=sentence), writing("/data/c.zarr"):
        raise OSError(number, os.strerror(number), "/data/c.zarr/x/c/0")


def test_what_is_no_disks_fault_is_left_as_it_is():
    for error in (
        ConnectionResetError(errno.ECONNRESET, "reset"),
        FileExistsError("a sentence"),
        ValueError("a value"),
    ):
        with pytest.raises(type(error)) as raised, writing("/data/c.zarr"):
            raise error
        assert raised.value is error
    assert status_of(DatasetError("replaced")) is None
    assert status_of(MemoryError()) is FrameStatus.FAILED
