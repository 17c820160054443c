"""How long a GPU is at its stages: each moment once, however many streams are at it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from emulation.device import EmulatedDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import FinderParameters, Pedestal
from gpu import stage_clock
from gpu.device import DeviceError
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings
from gpu.stage_clock import Moments, Span, StageClock

SHAPE = (12, 37)
SECONDS = ("h2d_seconds", "kernel_seconds", "d2h_seconds")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=30))
def test_a_moment_is_counted_once_in_whatever_order_intervals_come(intervals):
    moments, known = Moments(), set()
    for begin, length in intervals:
        new = set(range(begin, begin + length)) - known
        assert moments.add(begin, begin + length) == len(new)
        known |= new


def test_what_lies_before_all_that_is_remembered_is_not_counted_again(monkeypatch):
    monkeypatch.setattr(stage_clock, "INTERVALS_KEPT", 3)
    moments = Moments()
    assert [moments.add(10.0 * k, 10.0 * k + 1) for k in range(5)] == [1.0] * 5
    assert moments.add(0, 1) == 0
    assert moments.add(0, 15) == pytest.approx(15 - 11)  # From the end of the last that was forgotten.
    assert moments.add(20, 21) == 0


@pytest.mark.parametrize("seconds_an_origin", [4.0, 0.0])
def test_a_span_is_claimed_once_from_whatever_origin(device, monkeypatch, seconds_an_origin):
    monkeypatch.setattr(stage_clock, "SECONDS_AN_ORIGIN", seconds_an_origin)
    clock, stream, memory = StageClock(device), device.stream(), device.allocate(8)
    began = time.perf_counter()
    total = 0.0
    for _ in range(3):
        origin, span = clock.origin(), Span(device)
        with span.on(stream):
            stream.fill(memory.address, 0, 8)
        stream.synchronize()
        lasted = span.ended.seconds_since(span.began)
        claimed = clock.claim("kernel", origin, span)
        assert claimed == pytest.approx(lasted)
        assert clock.claim("kernel", origin, span) == pytest.approx(0, abs=1e-12)
        assert clock.claim("H2D", origin, span) == pytest.approx(lasted)
        total += claimed
    assert 0 < total <= time.perf_counter() - began


def test_an_event_tells_no_time_before_it_has_happened_or_without_being_timed(device):
    stream, first, second, plain = device.stream(), *(device.event(timed=True) for _ in range(2)), device.event()
    stream.record(first)
    stream.synchronize()
    with pytest.raises(DeviceError, match="has not happened"):
        second.seconds_since(first)
    stream.record(plain)
    stream.synchronize()
    with pytest.raises(DeviceError, match="has none"):
        plain.seconds_since(first)


def chains_in_threads(device, n_threads, n_frames=24, **how):
    """What each of some chains took of the device; and how long all of it took."""
    how = {"n_streams": n_threads, "chunk_frames": 8} | how
    finder = CudaFinder(FinderParameters(), SHAPE, device=device, settings=GpuSettings(**how))
    pedestal = Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0))
    rng = np.random.default_rng(3)
    frames = rng.normal(100, 2, (n_frames, *SHAPE)).round().astype(np.uint16)
    frames[:, 3, 5] = 200
    chains, found = [finder.chain(pedestal) for _ in range(n_threads)], [None] * n_threads

    def work(number):
        found[number] = chains[number].find(frames)

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [chain.device_use for chain in chains], time.perf_counter() - began, frames, found


@pytest.mark.parametrize(
    "how", [{}, {"graphs": False}, {"graphs": False, "pinned": False}, {"overlap": False}], ids=str
)
@pytest.mark.parametrize("n_frames", [24, 21])
def test_a_chain_knows_what_it_took_of_the_gpu(device, n_frames, how):
    [use], seconds, frames, [found] = chains_in_threads(device, 1, n_frames, **how)
    assert use.h2d_bytes == frames.nbytes
    assert use.d2h_bytes == len(found) * 44 > 0
    for name in SECONDS:
        assert 0 < getattr(use, name) < seconds, name


def test_streams_side_by_side_are_together_never_longer_at_a_stage_than_has_passed(cpu_compiler):
    for seed in range(5):
        uses, seconds, frames, _ = chains_in_threads(EmulatedDevice(cpu_compiler, seed), 3)
        assert sum(use.h2d_bytes for use in uses) == 3 * frames.nbytes
        for name in SECONDS:
            assert 0 < sum(getattr(use, name) for use in uses) <= seconds, (seed, name)


def test_frames_that_lie_page_locked_are_timed_too(device):
    frames = np.full((20, *SHAPE), 100, np.uint16)
    finder = CudaFinder(FinderParameters(), SHAPE, device=device, settings=GpuSettings(n_streams=1, chunk_frames=8))
    chain = finder.chain(Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0)))
    with finder.register(frames):
        chain.update(frames)
    use = chain.device_use
    assert (use.h2d_bytes, use.d2h_bytes, use.d2h_seconds) == (frames.nbytes, 0, 0)
    assert min(use.h2d_seconds, use.kernel_seconds) > 0
