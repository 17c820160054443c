"""The ladder of `gpu_check.py`: what each step of making a GPU finder fast brings, as settings of this one finder.

Published for the same job (RTX 4090, PCIe 4.0 ×16, 400×400, 3×3, 2 330 clusters a frame), µs a frame: opt1 66.8,
opt2 43.2, opt3 37.6, opt4 27.2, opt5 25.3. Each rung is run once before it is timed, so that its memory has been
touched.
"""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import FinderParameters, Pedestal
from finder.device_use import DeviceUse
from finder.kept_clusters import KeptClusters
from gpu.chain_memory import ChainMemory
from gpu.chunk_plan import ChunkPlan, kind_of
from gpu.device import Device
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings
from gpu.stage_clock import StageClock
from gpu.staging import PlainFeed
from gpu.stream_context import StreamContext, Wanted

Frames = npt.NDArray[Any]


@dataclass(frozen=True)
class Rung:
    """One step.

    Args:
        name: as it was published.
        what: what changed.
        settings: of the finder.
        barrier: whether all streams wait for each other after each batch.
        registered: whether the frames are page-locked where they are.
    """

    name: str
    what: str
    settings: GpuSettings
    barrier: bool = False
    registered: bool = False


@dataclass(frozen=True)
class RungResult:
    """What a rung took.

    Args:
        name, what: of the rung.
        microseconds_a_frame: median of the repeats.
        quartiles: of the repeats, µs a frame.
        clusters: found in all frames; the same on every rung.
        host_share: processor time of this process over wall time, of one core.
        stage_microseconds: of a frame, in which at least one stream was at the stage: H2D, kernel, D2H.
    """

    name: str
    what: str
    microseconds_a_frame: float
    quartiles: tuple[float, float]
    clusters: int
    host_share: float
    stage_microseconds: dict[str, float]


def rungs(n_streams: int, chunk_frames: int | None = None) -> tuple[Rung, ...]:
    """The ladder, from the bottom.

    Args:
        n_streams: streams from opt2 on.
        chunk_frames: frames of a chunk from opt2 on; None: the finder's own choice.
    """

    def settings(**how: Any) -> GpuSettings:
        return GpuSettings(**{"n_streams": n_streams, "chunk_frames": chunk_frames, "frames_a_launch": 1} | how)

    plain = {"graphs": False, "pinned": False, "overlap": False}
    opt1 = settings(n_streams=1, chunk_frames=2, **plain)
    return (
        Rung("opt1", "one stream, pageable, waits after every 2 frames", opt1),
        Rung("opt2", f"{n_streams} streams, a barrier after each batch", settings(**plain), barrier=True),
        Rung("opt3", "no barrier", settings(**plain | {"overlap": True})),
        Rung("opt4", "page-locked staging", settings(graphs=False)),
        Rung("opt5", "captured graphs (float32 centred, as opt6)", settings()),
        Rung("ours", "several frames a launch", settings(frames_a_launch=None)),
        Rung("ours", "frames page-locked in place", settings(frames_a_launch=None), registered=True),
    )


def run_rung(
    rung: Rung, device: Device, parameters: FinderParameters, pedestal: Pedestal, batches: list[Frames], repeats: int
) -> RungResult:
    """Time a rung on batches, each a chain of its own."""
    frames = batches[0].base if batches[0].base is not None else batches[0]
    finder = CudaFinder(parameters, pedestal.shape, device=device, settings=rung.settings)
    n_streams = rung.settings.n_streams
    barrier = threading.Barrier(n_streams) if rung.barrier and len(batches) % n_streams == 0 else None

    def find(batch: Frames) -> tuple[int, DeviceUse]:
        chain = finder.chain(pedestal)
        n = len(chain.find(batch))
        if barrier is not None:
            barrier.wait()
        return n, chain.device_use

    seconds, busy, clusters, use = [], [], 0, DeviceUse()
    n_frames = sum(map(len, batches))
    locked = finder.register(np.asarray(frames)) if rung.registered else nullcontext()
    with locked, ThreadPoolExecutor(n_streams) as threads:
        for repeat in range(repeats + 1):
            began, processor = time.perf_counter(), time.process_time()
            counts, uses = zip(*threads.map(find, batches), strict=True)
            clusters, use = sum(counts), sum(uses, DeviceUse())
            if repeat:
                seconds.append(time.perf_counter() - began)
                busy.append(time.process_time() - processor)
    each = sorted(1e6 * value / n_frames for value in seconds)
    low, _, high = statistics.quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
    share = statistics.median(a / b for a, b in zip(busy, seconds, strict=True))
    stages = {"H2D": use.h2d_seconds, "kernel": use.kernel_seconds, "D2H": use.d2h_seconds}
    a_frame = {name: 1e6 * value / n_frames for name, value in stages.items()}
    return RungResult(rung.name, rung.what, statistics.median(each), (low, high), clusters, share, a_frame)


def kernel_microseconds(
    device: Device,
    parameters: FinderParameters,
    pedestal: Pedestal,
    frames: Frames,
    settings: GpuSettings,
    repeats: int,
) -> float:
    """µs that the kernels of a frame take, by themselves on one stream, on real frames that lie on the device.

    As a graph: queued one by one from Python, they would wait for the host.
    """
    shape = pedestal.shape
    n_pixels = shape[0] * shape[1]
    plan = ChunkPlan(parameters, shape, kind_of(frames.dtype, int(np.abs(pedestal.x0).max())), settings)
    chunk = plan.chunk
    frames = frames[: chunk.frames]
    present = device.allocate(n_pixels)
    stream = device.stream()
    stream.fill(present.address, 1, n_pixels)
    stream.synchronize()
    context = StreamContext(device, plan, StageClock(device), present.address)
    memory = ChainMemory(device, n_pixels)
    context.load(memory, pedestal)
    kept = KeptClusters(len(frames), shape, parameters.cluster_size, 0.02 * n_pixels)
    context.run(memory, PlainFeed(frames, locked=False), True, Wanted(kept.found.n_clusters, kept))
    # The first slot still holds the frames, and the block that says what to do with them.
    slot = context._slots[0]
    kernels = context._stream.capture(
        lambda: context._kernels.search_and_collect(context._stream, slot.at, chunk.launches)
    )
    for timed in (False, True):
        began = time.perf_counter()
        for _ in range(repeats if timed else 1):
            context._stream.replay(kernels)
        context._stream.synchronize()
    return 1e6 * (time.perf_counter() - began) / (repeats * len(frames))
