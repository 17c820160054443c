"""Frames are decoded into page-locked memory while earlier ones are searched, and are the same frames."""

import os

import numpy as np
import pytest
from emulation.device import EmulatedDevice

from finder import FinderParameters, Pedestal, open_finder
from frame_archive import ArchiveError, FrameArchive, ReadUse, create_archive
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings
from pipeline.batches.reading_ahead import ReadAhead


@pytest.fixture
def archive(tmp_path):
    rng = np.random.default_rng(3)
    frames = rng.normal(1000, 5, (50, 12, 14)).astype(np.uint16)
    frames[rng.random(frames.shape) < 0.005] += 200
    writer = create_archive(str(tmp_path / "a.zarr"), shape=frames.shape, dtype=frames.dtype, frames_per_chunk=4)
    writer.write_frames(0, frames)
    return FrameArchive.open(str(tmp_path / "a.zarr")), frames


@pytest.fixture
def finder(cpu_compiler):
    device = EmulatedDevice(cpu_compiler)
    return CudaFinder(FinderParameters(), (12, 14), device=device, settings=GpuSettings(n_streams=1, chunk_frames=8))


@pytest.fixture
def ahead(archive, finder):
    reader = ReadAhead(archive[0], finder, 3)
    yield reader
    reader.close()


def test_blocks_are_those_of_the_archive_in_page_locked_memory(archive, finder, ahead):
    source, frames = archive
    use = ReadUse()
    seen = []
    for start, block in ahead.blocks([(1, 8), (8, 24), (24, 50)], use):
        assert finder.page_locks.holds(block)
        seen.append((start, block.copy()))
    assert [start for start, _ in seen] == [1, 8, 24]
    np.testing.assert_array_equal(np.concatenate([block for _, block in seen]), frames[1:])
    assert use.stored_bytes == source.stored_bytes(1, 50)
    assert use.read_seconds + use.decode_seconds > 0


def test_clusters_found_from_them_are_the_cpus(archive, finder, ahead):
    _, frames = archive
    pedestal = Pedestal.from_mean_and_noise(np.full((12, 14), 1000.0), np.full((12, 14), 5.0), n_samples=1000)
    expected = open_finder("cpu", FinderParameters(), (12, 14)).find(frames, pedestal)
    chain = finder.chain(pedestal)
    found = [chain.find(block) for _, block in ahead.blocks([(0, 20), (20, 40), (40, 50)], ReadUse())]
    assert sum(len(part) for part in found) == len(expected) > 10
    np.testing.assert_array_equal(np.concatenate([part.signal for part in found]), expected.signal)
    np.testing.assert_array_equal(chain.pedestal.s1, expected.pedestal.s1)


def test_buffers_are_used_again_and_given_back(archive, finder, ahead):
    for _ in range(3):
        for _ in ahead.blocks([(0, 8), (8, 16)], ReadUse()):
            pass
    assert len(finder.page_locks._ranges) == 2
    ahead.close()
    assert finder.page_locks._ranges == []


def test_a_damaged_chunk_ends_the_reading_and_no_buffer_is_lost(archive, finder, ahead):
    source, _ = archive
    os.truncate(source.chunk_paths(20, 21)[0], 10)
    with pytest.raises(ArchiveError, match=r"frames 20"):
        for _ in ahead.blocks([(0, 8), (8, 16), (16, 24)], ReadUse()):
            pass
    assert len(ahead._spare) == 2
    assert [start for start, _ in ahead.blocks([(0, 8), (8, 16)], ReadUse())] == [0, 8]
