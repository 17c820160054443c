"""The precision rungs of `gpu_check.py`: what float64 costs, and what raw moments in float32 find that is not there.

Three times the same plain kernel (`raw_moments.cu`) in other arithmetic, timed and counted on the GPU. `counts_on_cpu`
is the same in NumPy, for the counts.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu.device import Device, Graph, Kernel, KernelSource, Stream

Frames = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("raw_moments.cu").resolve()
THREADS = 256
CHUNK_FRAMES = 50  # An even number: the state is then where it was.


@dataclass(frozen=True)
class Arithmetic:
    """How moments are kept.

    Args:
        name: for people.
        real: the type.
        is_centred: around X0, or as they are.
    """

    name: str
    real: type[np.floating[Any]]
    is_centred: bool

    def moments(self, darks: Frames, n_samples: int) -> tuple[Frames, Frames, Frames]:
        """X0 and both sums of a pedestal trained on darks (frame, y, x), (y, x) each."""
        mean = np.rint(darks.mean(axis=0)).astype(np.int64)
        x0 = mean if self.is_centred else np.zeros_like(mean)
        y, weight = darks.astype(np.int64) - x0, n_samples / len(darks)
        return x0, (y.sum(axis=0) * weight).astype(self.real), ((y**2).sum(axis=0) * weight).astype(self.real)


ARITHMETICS = (
    Arithmetic("float64 raw", np.float64, is_centred=False),
    Arithmetic("float32 raw", np.float32, is_centred=False),
    Arithmetic("float32 centred", np.float32, is_centred=True),
)


@dataclass(frozen=True)
class PrecisionResult:
    """What an arithmetic took and found.

    Args:
        name: of the arithmetic.
        microseconds_a_frame: copied to the GPU from page-locked memory and searched, on one stream: median.
        kernel_microseconds: searched alone: median.
        clusters: in all frames.
        frames: how many these were.
    """

    name: str
    microseconds_a_frame: float
    kernel_microseconds: float
    clusters: int
    frames: int


class PlainSearch:
    """The plain kernel for frames of one shape, in one arithmetic.

    Args:
        device: the GPU.
        arithmetic: how moments are kept.
        darks: uint16 (frame, y, x).
        n_frames: of a chunk, an even number.
        n_sigma, n_samples: as the finder's.
    """

    def __init__(
        self, device: Device, arithmetic: Arithmetic, darks: Frames, n_frames: int, n_sigma: float, n_samples: int
    ) -> None:
        self.shape, self._n = darks.shape[1:], darks[0].size
        source = KernelSource(str(SOURCE), (("REAL_BYTES", np.dtype(arithmetic.real).itemsize),), ("find_plainly",))
        self._program = device.load(source)
        self._kernel: Kernel = self._program.kernel("find_plainly")
        self._stream: Stream = device.stream()
        self.staging = device.allocate_pinned(2 * n_frames * self._n)
        self._frames = device.allocate(2 * n_frames * self._n)
        self._counts, self._x0 = device.allocate(4 * self._n), device.allocate(4 * self._n)
        self._state = [device.allocate(np.dtype(arithmetic.real).itemsize * self._n) for _ in range(4)]
        self._n_frames = n_frames
        self._numbers = np.float32(n_samples), np.float32(n_sigma**2)
        x0, *sums = arithmetic.moments(darks, n_samples)
        self._stream.fill(self._counts.address, 0, self._counts.nbytes)
        for memory, plane in zip((self._x0, *self._state), (x0.astype(np.int32), *sums), strict=False):
            content = np.ascontiguousarray(plane)
            self._stream.upload(memory.address, int(content.ctypes.data), memory.nbytes)
            self._stream.synchronize()
        self._queue(upload=True, n_frames=0)
        self._launch(0)  # Once before it is captured, and then from the beginning: nothing has been looked at yet.
        self._stream.fill(self._counts.address, 0, self._counts.nbytes)
        self._stream.synchronize()
        self.with_upload, self.alone = (
            self._stream.capture(partial(self._queue, upload, n_frames)) for upload in (True, False)
        )

    def find(self, frames: Frames) -> int:
        """The clusters of frames (frame, y, x), as many as whole chunks hold."""
        chunk = self.staging.array.view(np.uint16).reshape(self._n_frames, *self.shape)
        for first in range(0, len(frames) - self._n_frames + 1, self._n_frames):
            chunk[:] = frames[first : first + self._n_frames]
            self._stream.replay(self.with_upload)
            self._stream.synchronize()
        counts = np.empty(self._n, np.uint32)
        self._stream.download(int(counts.ctypes.data), self._counts.address, counts.nbytes)
        self._stream.synchronize()
        return int(counts.sum(dtype=np.int64))

    def seconds(self, graph: Graph, times: int) -> float:
        """How long a graph takes that is replayed so many times."""
        self._stream.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            self._stream.replay(graph)
        self._stream.synchronize()
        return time.perf_counter() - began

    def _queue(self, upload: bool, n_frames: int) -> None:
        if upload:
            self._stream.upload(self._frames.address, self.staging.address, 2 * n_frames * self._n)
        for nth in range(n_frames):
            self._launch(nth)

    def _launch(self, nth: int) -> None:
        before, after = (self._state[:2], self._state[2:])[:: 1 if nth % 2 == 0 else -1]
        arguments = (
            self._frames.address + 2 * nth * self._n,
            self._x0.address,
            *(memory.address for memory in (*before, *after)),
            self._counts.address,
            *(np.int32(side) for side in self.shape),
            *self._numbers,
        )
        self._stream.launch(self._kernel, (-(-self._n // THREADS), 1, 1), (THREADS, 1, 1), arguments)


def run_precision(
    arithmetic: Arithmetic,
    device: Device,
    frames: Frames,
    darks: Frames,
    *,
    n_sigma: float = 5.0,
    n_samples: int = 1000,
    repeats: int = 5,
    times: int = 20,
) -> PrecisionResult:
    """Count and time one arithmetic on uint16 frames (frame, y, x), windows of 3×3."""
    n_chunk = min(CHUNK_FRAMES, len(frames) // 2 * 2)
    search = PlainSearch(device, arithmetic, darks, n_chunk, n_sigma, n_samples)
    clusters = search.find(frames)
    graphs = search.with_upload, search.alone
    whole, alone = (
        statistics.median(search.seconds(graph, times) for _ in range(repeats)) * 1e6 / (times * n_chunk)
        for graph in graphs
    )
    return PrecisionResult(arithmetic.name, whole, alone, clusters, len(frames) // n_chunk * n_chunk)


def counts_on_cpu(frames: Frames, darks: Frames, n_sigma: float, n_samples: int) -> dict[str, int]:
    """What each arithmetic finds, with NumPy."""
    return {arithmetic.name: _count(arithmetic, frames, darks, n_sigma, n_samples) for arithmetic in ARITHMETICS}


def _count(arithmetic: Arithmetic, frames: Frames, darks: Frames, n_sigma: float, n_samples: int) -> int:
    kind = arithmetic.real
    n = kind(n_samples)
    x0, s1, s2 = arithmetic.moments(darks, n_samples)
    found = 0
    for frame in frames:
        y = (frame.astype(np.int64) - x0).astype(kind)
        mean, second = s1 / n, s2 / n
        v = y - mean
        limit = np.maximum(kind(n_sigma**2) * (second - mean * mean), 0)
        around = np.pad(v, 1)
        windows = [around[a : a + v.shape[0], b : b + v.shape[1]] for a in range(3) for b in range(3)]
        most, total = np.maximum(np.max(windows, axis=0), 0), np.sum(windows, axis=0, dtype=kind)
        low = (v < 0) & (v * v > limit)
        photon = ((most > 0) & (most * most > limit)) | ((total > 0) & (total * total > 9 * limit))
        found += int((photon & ~low & (v == most)).sum())
        quiet = ~photon & ~low
        s1 = s1 + np.where(quiet, y - mean, kind(0))
        s2 = s2 + np.where(quiet, y * y - second, kind(0))
    return found
