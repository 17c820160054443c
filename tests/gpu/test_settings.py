"""The knobs, and the chunks that follow from them."""

from __future__ import annotations

import pytest

from finder import FinderParameters
from gpu.parameter_block import PARAMETER_BLOCK
from gpu.settings import LARGEST_SHARED_NBYTES, GpuSettings, chunk_of, shared_nbytes

MOENCH = 400 * 400 * 2


@pytest.mark.parametrize(
    ("window", "frames_a_launch"), [((3, 3), 4), ((3, 5), 2), ((5, 5), 2), ((7, 3), 1), ((9, 9), 1)]
)
def test_smaller_windows_take_more_frames_a_launch(window, frames_a_launch):
    chunk = chunk_of(GpuSettings(), FinderParameters(cluster_size=window), MOENCH)
    assert chunk.frames_a_launch == frames_a_launch
    assert shared_nbytes(window, frames_a_launch) <= LARGEST_SHARED_NBYTES


def test_a_chunk_has_an_even_number_of_launches_so_that_the_state_ends_where_it_began():
    for wanted in (None, 1, 7, 8, 9, 100):
        for frame_nbytes in (2, MOENCH, 32 << 20, 1 << 30):
            chunk = chunk_of(GpuSettings(chunk_frames=wanted), FinderParameters(), frame_nbytes)
            assert chunk.launches % 2 == 0
            assert chunk.frames >= (wanted or 1)


def test_frames_of_many_megabytes_are_taken_a_few_at_a_time():
    assert chunk_of(GpuSettings(), FinderParameters(), 32 << 20).frames == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_streams": 0}, "n_streams is 0; it must be 1 or more"),
        ({"chunk_frames": 0}, "chunk_frames is 0"),
        ({"chunk_frames": 100_000}, "at most 32768"),
        ({"room": 0.0}, "room is 0.0; it must be above 0"),
        ({"pinned": False}, "without it, work without graphs"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GpuSettings(**settings)


def test_more_frames_a_launch_than_shared_memory_holds_are_refused():
    with pytest.raises(ValueError, match=r"with windows of 9x9 a block would need .* take fewer frames a launch"):
        chunk_of(GpuSettings(frames_a_launch=3), FinderParameters(cluster_size=(9, 9)), MOENCH)


def test_the_parameter_block_has_no_gaps():
    offsets = [PARAMETER_BLOCK.fields[name][1] for name in PARAMETER_BLOCK.names]
    sizes = [PARAMETER_BLOCK.fields[name][0].itemsize for name in PARAMETER_BLOCK.names]
    assert [a + size for a, size in zip(offsets, sizes, strict=True)] == [*offsets[1:], 168]
