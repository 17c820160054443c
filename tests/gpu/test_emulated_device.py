"""The emulated device shows what a GPU would: barriers, streams and memory that are used wrongly give wrong answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulation.device import EmulatedDevice
from emulation.memory import POISON

from gpu.device import DeviceError, KernelSource

N = 64
FAULTY = KernelSource(
    str(Path(__file__).parent / "emulation" / "faulty.cu"),
    (),
    (
        "reversed",
        "reversed_without_a_barrier",
        "counted_in_memory_of_the_last_block",
        "smoothed_in_place",
        "a_barrier_for_some",
        "a_ballot_of_absent_lanes",
        "beyond_the_end",
    ),
)
VALUES = np.arange(4 * N, dtype=np.int32)
SEEDS = range(12)


def uploaded(device, values=VALUES):
    memory, stream = device.allocate(values.nbytes), device.stream()
    stream.upload(memory.address, values.ctypes.data, values.nbytes)
    stream.synchronize()
    return memory


def content(memory, dtype=np.int32):
    return memory.array.view(dtype)


def run(cpu_compiler, kernel, seed, *, grid=4, arguments=2):
    """The last argument's memory after the kernel."""
    device = EmulatedDevice(cpu_compiler, seed)
    memories = [uploaded(device) for _ in range(arguments)]
    stream = device.stream()
    addresses = [memory.address for memory in memories]
    stream.launch(device.load(FAULTY).kernel(kernel), (grid, 1, 1), (N, 1, 1), addresses)
    stream.synchronize()
    result = content(memories[-1]).copy()
    memories[-1].free()
    return result, device


def test_a_right_kernel_is_right_in_every_order(cpu_compiler):
    expected = VALUES.reshape(4, N)[:, ::-1].reshape(-1)
    for seed in SEEDS:
        np.testing.assert_array_equal(run(cpu_compiler, "reversed", seed)[0], expected)


def test_a_missing_barrier_gives_wrong_answers(cpu_compiler):
    expected = VALUES.reshape(4, N)[:, ::-1].reshape(-1)
    for seed in SEEDS:
        assert (run(cpu_compiler, "reversed_without_a_barrier", seed)[0] != expected).any()


def test_shared_memory_does_not_last_from_block_to_block(cpu_compiler):
    for seed in SEEDS:
        counts = run(cpu_compiler, "counted_in_memory_of_the_last_block", seed, arguments=1)[0][:4]
        assert counts[0] == N
        assert (counts[1:] < 0).all()


def test_blocks_that_read_what_their_neighbours_write_give_answers_that_vary(cpu_compiler):
    answers = {run(cpu_compiler, "smoothed_in_place", seed, arguments=1)[0].tobytes() for seed in SEEDS}
    assert len(answers) > 1


@pytest.mark.parametrize("kernel", ["a_barrier_for_some", "a_ballot_of_absent_lanes"])
def test_threads_that_wait_for_those_that_never_come_are_an_error(cpu_compiler, kernel):
    with pytest.raises(DeviceError, match=f"{kernel}: .* not all threads come to"):
        run(cpu_compiler, kernel, 0, arguments=1)


def test_a_write_beyond_the_end_is_seen(cpu_compiler):
    assert run(cpu_compiler, "reversed", 0)[1].pool.overruns == 0
    device = EmulatedDevice(cpu_compiler)
    memory, stream = device.allocate(4 * N), device.stream()
    stream.launch(device.load(FAULTY).kernel("beyond_the_end"), (1, 1, 1), (N, 1, 1), (memory.address,))
    stream.synchronize()
    memory.free()
    assert device.pool.overruns == 1


def test_arguments_of_another_number_or_size_are_an_error(device):
    kernel, memory, stream = device.load(FAULTY).kernel("reversed"), uploaded(device), device.stream()
    for arguments in ((memory.address,), (memory.address, np.int32(1))):
        stream.launch(kernel, (1, 1, 1), (N, 1, 1), arguments)
        with pytest.raises(DeviceError, match="argument"):
            stream.synchronize()
        device.scheduler._failure = None


def test_fresh_and_freed_memory_is_poisoned(device):
    memory = device.allocate(100)
    assert (memory.array == POISON).all()
    memory.array[:] = 1
    memory.free()
    assert (memory.array == POISON).all()


def test_a_copy_to_or_from_freed_memory_is_an_error(device):
    memory, stream = uploaded(device), device.stream()
    stream.fill(memory.address, 0, memory.nbytes)
    stream.synchronize()
    memory.free()
    stream.fill(memory.address, 0, 4)
    with pytest.raises(DeviceError, match="not any more"):
        stream.synchronize()


def test_streams_keep_their_own_order_and_no_other(cpu_compiler):
    seen = set()
    for seed in range(40):
        device = EmulatedDevice(cpu_compiler, seed)
        memory, streams = uploaded(device), [device.stream(), device.stream()]
        for byte in (1, 2):
            for number, stream in enumerate(streams):
                stream.fill(memory.address, 10 * number + byte, 1)
        for stream in streams:
            stream.synchronize()
        seen.add(int(memory.array[0]))
    assert seen == {2, 12}


def test_an_event_orders_streams(cpu_compiler):
    for seed in range(40):
        device = EmulatedDevice(cpu_compiler, seed)
        memory, first, second, event = uploaded(device), device.stream(), device.stream(), device.event()
        first.fill(memory.address, 1, 1)
        first.record(event)
        second.wait(event)
        second.fill(memory.address, 2, 1)
        second.synchronize()
        first.synchronize()
        assert memory.array[0] == 2


def test_the_hosts_memory_is_read_when_a_copy_runs_and_not_when_it_is_queued(cpu_compiler):
    seen = set()
    for seed in range(40):
        device = EmulatedDevice(cpu_compiler, seed)
        memory, source, stream = device.allocate(1), np.array([1], np.uint8), device.stream()
        stream.upload(memory.address, source.ctypes.data, 1)
        source[0] = 2
        stream.synchronize()
        seen.add(int(memory.array[0]))
    assert seen == {1, 2}


def test_a_capture_runs_nothing_and_its_replays_all_of_it(device):
    memory, stream = uploaded(device), device.stream()
    graph = stream.capture(lambda: stream.fill(memory.address, 7, 4))
    stream.synchronize()
    assert content(memory)[0] == 0
    stream.replay(graph)
    stream.synchronize()
    assert content(memory)[0] == 0x07070707


def test_what_cuda_refuses_in_a_capture_is_refused(device):
    stream, event, kernel = device.stream(), device.event(), device.load(FAULTY).kernel("reversed")
    refused = [
        lambda: device.allocate(8),
        lambda: device.allocate_pinned(8),
        stream.synchronize,
        event.synchronize,
        lambda: stream.launch(kernel, (1, 1, 1), (N, 1, 1), (0, 0)),
    ]
    for work in refused:
        with pytest.raises(DeviceError, match="captur"):
            stream.capture(work)
    device.allocate(8)  # The capture has ended all the same.
