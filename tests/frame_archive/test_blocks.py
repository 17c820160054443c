"""Blocks cover what they are asked for, stay within their bytes and decode each stored chunk once."""

from itertools import pairwise

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frame_archive import FrameArchive

FRAME_NBYTES = 4 * 5 * 2


@pytest.fixture(scope="module")
def archive_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    opened = {}

    def archive(chunk: int, shard: int | None = None) -> FrameArchive:
        path = folder / f"{chunk}-{shard}.zarr"
        if path not in opened:
            shards = None if shard is None else (shard, 4, 5)
            group = zarr.create_group(path)
            group.create_array("frames", shape=(100, 4, 5), chunks=(chunk, 4, 5), shards=shards, dtype="u2")
            opened[path] = FrameArchive.open(path)
        return opened[path]

    return archive


@given(st.data())
def test_blocks_cover_the_range_in_whole_chunks(archive_of, data):
    chunk = data.draw(st.sampled_from([1, 7, 20, 100]))
    start = data.draw(st.integers(0, 100))
    stop = data.draw(st.integers(start, 100))
    max_frames = data.draw(st.integers(1, 120))
    blocks = list(archive_of(chunk).blocks(start, stop, max_bytes=max_frames * FRAME_NBYTES))
    assert [frame for a, b in blocks for frame in range(a, b)] == list(range(start, stop))
    assert all(b - a <= max(max_frames, chunk) for a, b in blocks)
    assert all(b % chunk == 0 for (_, b), _ in pairwise(blocks))


def test_blocks_of_a_sharded_archive_follow_the_inner_chunks(archive_of):
    assert list(archive_of(10, shard=50).blocks(5, 45, max_bytes=20 * FRAME_NBYTES)) == [(5, 20), (20, 40), (40, 45)]


def test_the_largest_block_by_default_is_said_beforehand(archive_of):
    for chunk in (1, 20):
        archive = archive_of(chunk)
        assert max(b - a for a, b in archive.blocks(0, 100)) * FRAME_NBYTES == archive.block_nbytes
    assert archive.frame_nbytes == FRAME_NBYTES
    assert np.empty((1, *archive.frame_shape), archive.dtype).nbytes == FRAME_NBYTES
