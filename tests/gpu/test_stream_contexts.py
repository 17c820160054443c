"""Chunks, slots, streams and threads: none of them shows in a result."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from emulation.device import EmulatedDevice, EmulatedStream

from finder import FinderParameters, Pedestal, open_finder
from gpu.chunk_plan import ChunkPlan, kind_of
from gpu.device import DeviceError, LostDeviceError, OutOfDeviceMemoryError
from gpu.finder import CudaFinder
from gpu.memory_plan import finder_memory
from gpu.settings import GpuSettings

SHAPE = (12, 37)
SEEDS = 8
MORE_SEEDS = 40  # Some orders are rare.


@pytest.fixture(scope="module")
def pedestal():
    return Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0))


def frames_of(seed, n_frames=37, share=0.05):
    rng = np.random.default_rng(seed)
    lit = rng.random((n_frames, *SHAPE)) < share
    return (rng.normal(100, 2, lit.shape) + lit * 80).round().astype(np.uint16)


@pytest.fixture(scope="module")
def frames():
    return frames_of(1)


@pytest.fixture(scope="module")
def mask():
    return np.random.default_rng(2).random(SHAPE) < 0.2


def cuda_finder(device, mask=None, **settings):
    how = {"n_streams": 2, "chunk_frames": 8} | settings
    return CudaFinder(FinderParameters(), SHAPE, mask, device=device, settings=GpuSettings(**how))


def expected_of(frames, pedestal, mask=None):
    return open_finder("reference", FinderParameters(), SHAPE, mask).find(frames, pedestal)


def differences(found, expected):
    """Names of what differs."""
    named = {name: (getattr(found, name), getattr(expected, name)) for name in ("frame_index", "y", "x", "n_clusters")}
    named["signal"] = found.signal.view(np.uint32), expected.signal.view(np.uint32)
    named |= {
        name: (getattr(found.pedestal, name).view(np.uint32), getattr(expected.pedestal, name).view(np.uint32))
        for name in ("s1", "s2")
    }
    return [name for name, (a, b) in named.items() if not np.array_equal(a, b)]


def test_where_no_graph_can_be_made_work_is_queued_piece_by_piece(device, pedestal, frames, monkeypatch, caplog):
    def refused(stream, work):
        raise DeviceError("what was queued can't be captured: cudaErrorStreamCaptureInvalidated")

    monkeypatch.setattr(EmulatedStream, "capture", refused)
    found = cuda_finder(device, n_streams=1).find(frames, pedestal)
    assert differences(found, expected_of(frames, pedestal)) == []
    (told,) = caplog.messages
    assert "piece by piece, which is slower: what was queued can't be captured" in told
    assert device.graphs_replayed == 0


def test_a_gpu_that_is_lost_while_a_graph_is_made_is_told(device, pedestal, frames, monkeypatch):
    def lost(stream, work):
        raise LostDeviceError("the context is gone")

    monkeypatch.setattr(EmulatedStream, "capture", lost)
    with pytest.raises(LostDeviceError, match="the context is gone"):
        cuda_finder(device).find(frames, pedestal)


def test_nothing_is_cut_off_where_every_pixel_fires(device, pedestal):
    frames = np.full((20, *SHAPE), 200, np.uint16)
    frames[14:] = frames_of(3, 6)
    finder = cuda_finder(device, room=1e-6)
    found, expected = finder.find(frames, pedestal), expected_of(frames, pedestal)
    assert expected.n_clusters.max() == SHAPE[0] * SHAPE[1]
    assert differences(found, expected) == []


def test_a_device_that_is_too_small_for_the_clusters_says_so_and_finds_the_next(cpu_compiler, pedestal, frames):
    device = EmulatedDevice(cpu_compiler)
    finder = cuda_finder(device, n_streams=1)
    finder.find(frames, pedestal)
    device.pool.total = device.pool.used + 1000
    with pytest.raises(OutOfDeviceMemoryError, match="are free"):
        finder.find(np.full((20, *SHAPE), 200, np.uint16), pedestal)
    assert differences(finder.find(frames, pedestal), expected_of(frames, pedestal)) == []


@pytest.mark.parametrize("n_frames", [1, 7, 8, 9, 16, 17])
def test_short_last_chunks_are_as_good_as_whole_ones(device, pedestal, frames, n_frames):
    finder = cuda_finder(device, n_streams=1)
    assert differences(finder.find(frames[:n_frames], pedestal), expected_of(frames[:n_frames], pedestal)) == []


def test_a_full_chunk_is_replayed_from_one_graph_a_slot(device, pedestal, frames):
    finder = cuda_finder(device, n_streams=1)
    finder.find(frames[:32], pedestal)
    assert device.graphs_replayed == 4
    without = cuda_finder(device, graphs=False)
    assert differences(without.find(frames, pedestal), finder.find(frames, pedestal)) == []


def test_threads_share_streams_without_disturbing_each_other(cpu_compiler, pedestal, mask):
    inputs = [frames_of(seed, 20 + seed) for seed in range(6)]
    for seed in range(3):
        finder = cuda_finder(EmulatedDevice(cpu_compiler, seed), mask)
        found = [None] * len(inputs)

        def work(number, finder=finder, found=found):
            chain = finder.chain(pedestal)
            parts = [chain.find(inputs[number][a : a + 11]) for a in range(0, len(inputs[number]), 11)]
            found[number] = np.concatenate([part.signal for part in parts]), chain.pedestal, chain.activity

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for frames, (signal, after, activity) in zip(inputs, found, strict=True):
            expected = open_finder("reference", FinderParameters(), SHAPE, mask).chain(pedestal)
            np.testing.assert_array_equal(signal, expected.find(frames).signal)
            np.testing.assert_array_equal(after.s1, expected.pedestal.s1)
            np.testing.assert_array_equal(activity.updated, expected.activity.updated)


def test_chains_may_be_more_than_streams_and_take_turns(device, pedestal):
    finder = cuda_finder(device, n_streams=1)
    inputs = [frames_of(seed, 20) for seed in range(3)]
    chains = [finder.chain(pedestal) for _ in inputs]
    for part in (slice(0, 9), slice(9, 20)):
        for chain, frames in zip(chains, inputs, strict=True):
            chain.find(frames[part])
    for chain, frames in zip(chains, inputs, strict=True):
        np.testing.assert_array_equal(chain.pedestal.s2, expected_of(frames, pedestal).pedestal.s2)


def test_slices_of_a_registered_array_are_not_staged(device, pedestal, frames):
    finder = cuda_finder(device, n_streams=1)
    with finder.register(frames):
        assert finder.page_locks.holds(frames[5:])
        assert differences(finder.find(frames[5:], pedestal), expected_of(frames[5:], pedestal)) == []
        assert differences(finder.find(frames[::2], pedestal), expected_of(frames[::2], pedestal)) == []
    assert not finder.page_locks.holds(frames)
    with pytest.raises(ValueError, match="contiguous"):
        finder.register(frames[:, :, ::2])


def test_a_registered_array_is_read_while_its_frames_are_searched(device, pedestal, frames):
    """Not before and not after: frames that change once `find` has returned change nothing."""
    expected = expected_of(frames, pedestal)
    given = frames.copy()
    finder = cuda_finder(device, n_streams=1)
    with finder.register(given):
        found = finder.find(given, pedestal)
        given[:] = 0
    assert differences(found, expected) == []


def test_frames_of_several_types_go_on_in_one_chain(device, pedestal, frames):
    finder = cuda_finder(device, n_streams=2)
    chain, expected = finder.chain(pedestal), open_finder("reference", FinderParameters(), SHAPE).chain(pedestal)
    for part, dtype in ((slice(0, 9), np.uint16), (slice(9, 20), np.int32), (slice(20, 37), np.int16)):
        given = frames[part].astype(dtype)
        np.testing.assert_array_equal(chain.find(given).signal, expected.find(given).signal)
    np.testing.assert_array_equal(chain.pedestal.s1, expected.pedestal.s1)
    assert len(finder._idle) == 2


def test_a_failure_leaves_nothing_under_way_and_the_finder_of_use(device, pedestal, frames):
    finder = cuda_finder(device, n_streams=1)
    finder.find(frames, pedestal)

    class StopError(Exception):
        pass

    class Frames(np.ndarray):
        n_slices = 0

        def __getitem__(self, key):
            Frames.n_slices += isinstance(key, slice)
            if Frames.n_slices == 3:
                raise StopError
            return super().__getitem__(key)

    with pytest.raises(StopError):
        finder.chain(pedestal)._find(frames.view(Frames))
    assert differences(finder.find(frames, pedestal), expected_of(frames, pedestal)) == []


def test_a_finder_gives_all_memory_back_and_writes_nowhere_else(device, pedestal, frames):
    finder = cuda_finder(device)
    finder.find(frames, pedestal)
    assert device.pool.used > 0
    assert device.pinned.used > 0
    del finder
    gc.collect()
    assert device.pool.used == device.pinned.used == 0
    assert device.pool.overruns == device.pinned.overruns == 0


def test_device_memory_of_chains_is_used_again(device, pedestal, frames):
    finder = cuda_finder(device, n_streams=1)
    finder.find(frames, pedestal)
    used = device.pool.used
    for _ in range(3):
        finder.find(frames, pedestal)
    assert device.pool.used == used


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_the_memory_of_a_finder_is_known_before(device, dtype):
    finder = cuda_finder(device, n_streams=1, room=1.0)
    finder.find(np.zeros((20, *SHAPE), dtype), Pedestal.from_mean_and_noise(np.zeros(SHAPE), np.ones(SHAPE)))
    planned = finder_memory(ChunkPlan(FinderParameters(), SHAPE, kind_of(np.dtype(dtype), 0), finder.settings))
    assert (device.pinned.most_used, device.pool.most_used) == (planned.pinned, planned.device)


def run_with(cpu_compiler, pedestal, mask, seed, left_out=None):
    """What differs from the right answer; and the places that have synchronised."""
    device = EmulatedDevice(cpu_compiler, seed, left_out=left_out)
    # Only what is there for the sake of times may show in these alone.
    device.forgives = left_out is not None and not left_out.startswith("stage_clock.py")
    wrong = []
    try:
        finder = cuda_finder(device, mask, room=0.01)
        for frames in (frames_of(1), frames_of(2, 30, 0.3)):
            wrong += differences(finder.find(frames, pedestal), expected_of(frames, pedestal, mask))
        # A chain that goes on in another context, with the other kind of X0.
        chain = finder.chain(pedestal)
        expected = open_finder("reference", FinderParameters(), SHAPE, mask).chain(pedestal)
        for dtype in (np.uint16, np.int32):
            given = frames_of(3, 20).astype(dtype)
            wrong += [] if np.array_equal(chain.find(given).signal, expected.find(given).signal) else ["signal"]
        counts = [np.stack([of.activity.updated, of.activity.blind, of.activity.centres]) for of in (chain, expected)]
        wrong += [] if np.array_equal(*counts) else ["counts"]
        wrong += [] if np.array_equal(chain.pedestal.s1, expected.pedestal.s1) else ["s1"]
    except DeviceError as error:
        wrong.append(str(error))
    return wrong, device.synchronisations


def test_each_synchronisation_is_needed(cpu_compiler, pedestal, mask):
    places = set()
    for seed in range(SEEDS):
        wrong, synchronised = run_with(cpu_compiler, pedestal, mask, seed)
        assert wrong == [], seed
        places |= synchronised
    assert len(places) >= 5
    needed = {
        place
        for place in places
        if any(run_with(cpu_compiler, pedestal, mask, seed, left_out=place)[0] for seed in range(MORE_SEEDS))
    }
    assert needed == places


def test_a_slot_that_is_used_again_too_soon_gives_wrong_answers(cpu_compiler, pedestal, frames):
    expected, wrong = expected_of(frames, pedestal), []
    for seed in range(SEEDS):
        finder = cuda_finder(EmulatedDevice(cpu_compiler, seed), n_streams=1)
        finder.find(frames[:1], pedestal)
        [context] = finder._idle
        context._slots[1] = context._slots[0]
        wrong += differences(finder.find(frames, pedestal), expected)
    assert wrong
