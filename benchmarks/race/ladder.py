"""The ladder: what each idea of the CPU finder brought, on the same frames, with identical clusters at each rung."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.race.ours import blocks_of
from benchmarks.race.plain_numba import find_plainly
from benchmarks.race.subjects import Subject
from benchmarks.race.timing import Lap, Laps, lap_of, race
from finder import Clusters, FinderParameters, Pedestal, open_finder
from finder.cpu import CpuFinder
from frame_archive import FrameArchive, create_archive

THREADS = 2
# The reference takes half a second a hundred frames, and need not be timed on all.
REFERENCE_FRAMES = 20
SPECTRUM_EDGES = tuple(range(0, 2401, 16))

Frames = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Rung:
    """A rung of the ladder.

    Attributes:
        idea: what was done.
        frames: frames that it was timed on.
        laps: how long it took.
        identical: whether it gave the reference's clusters, signal and order.
        spectrum: its clusters in the bins of `SPECTRUM_EDGES`, by the sum of their windows.
    """

    idea: str
    frames: int
    laps: Laps
    identical: bool
    spectrum: tuple[int, ...] = ()


def ladder(subject: Subject, folder: Path, repeats: int) -> list[Rung]:
    """Time the rungs side by side.

    The frames are two batches, each of which starts from the trained pedestal, as in a run: so that threads, which take
    one each, find the same as one thread that takes both.

    Args:
        subject: the frames.
        folder: where an archive of them goes.
        repeats: timed runs of each rung.
    """
    frames, pedestal, parameters = np.ascontiguousarray(subject.load()), subject.pedestal, FinderParameters()
    batches = np.array_split(frames, THREADS)
    finder = open_finder("cpu", parameters, pedestal.shape)
    archive = _archive(folder / "ladder.zarr", frames)
    edges = [0, len(batches[0]), len(frames)]
    pool = ThreadPoolExecutor(THREADS)

    def of_batches(find: Callable[[Frames], list[Clusters]]) -> Callable[[], list[Clusters]]:
        return lambda: [found for batch in batches for found in find(batch)]

    def by(searching: Any) -> Callable[[Frames], list[Clusters]]:
        def find(batch: Frames) -> list[Clusters]:
            chain = searching.chain(pedestal)
            return [chain.find(block) for block in blocks_of(batch)]

        return find

    def read_and_find(batch: int, max_bytes: int) -> list[Clusters]:
        chain, found = finder.chain(pedestal), []
        first, stop = edges[batch], edges[batch + 1]
        buffer = np.empty((0, *archive.frame_shape), archive.dtype)
        for start, end in archive.blocks(first, stop, max_bytes=max_bytes):
            if end - start > len(buffer):
                buffer = np.empty((end - start, *archive.frame_shape), archive.dtype)
            archive.read(start, end, buffer[: end - start])
            found += [chain.find(block) for block in blocks_of(buffer[: end - start])]
        return found

    def from_archive(max_bytes: int) -> Callable[[], list[Clusters]]:
        return lambda: [found for part in pool.map(lambda k: read_and_find(k, max_bytes), range(2)) for found in part]

    reference = open_finder("reference", parameters, pedestal.shape)
    few = min(REFERENCE_FRAMES, len(batches[0]))
    rungs: dict[str, tuple[int, Callable[[], list[Clusters]]]] = {
        "plain reference (NumPy)": (few, lambda: [reference.chain(pedestal).find(batches[0][:few])]),
        "plain Numba loops": (
            len(frames), of_batches(lambda batch: [_plain(batch, pedestal, parameters)]),
        ),
        "SIMD values, in tiles of 8 rows": (
            len(frames), of_batches(by(_without(finder, prefetching=False, branchless=False))),
        ),
        "+ prefetch": (len(frames), of_batches(by(_without(finder, branchless=False)))),
        "+ emission without branches": (len(frames), of_batches(by(finder))),
        f"+ {THREADS} threads": (
            len(frames), lambda: [found for part in pool.map(by(finder), batches) for found in part],
        ),
        "from the archive: decode all, then find": (len(frames), from_archive(1 << 40)),
        "decode and find in step": (len(frames), from_archive(8 << 20)),
    }  # fmt: skip
    expected = of_batches(by(finder))()
    laps = race({idea: _lap(work) for idea, (_, work) in rungs.items()}, repeats)
    return [_rung(idea, n, laps[idea], work(), expected) for idea, (n, work) in rungs.items()]


def _rung(idea: str, n_frames: int, laps: Laps, found: list[Clusters], expected: list[Clusters]) -> Rung:
    energies = np.concatenate([part.signal.sum(axis=(1, 2)) for part in found])
    spectrum = tuple(np.histogram(energies, SPECTRUM_EDGES)[0].tolist())
    return Rung(idea, n_frames, laps, _same(found, expected, n_frames), spectrum)


def _lap(work: Callable[[], list[Clusters]]) -> Callable[[], Lap]:
    return lambda: lap_of(lambda: sum(len(found) for found in work()))


def _plain(batch: Frames, pedestal: Pedestal, parameters: FinderParameters) -> Clusters:
    found = find_plainly(batch, pedestal, parameters)
    return Clusters(found.frame_index, found.y, found.x, found.signal, found.n_clusters)


def _without(finder: Any, *, prefetching: bool = True, branchless: bool = True) -> CpuFinder:
    assert isinstance(finder, CpuFinder)
    other = CpuFinder(finder.parameters, finder.shape)
    other.kernel = dataclasses.replace(finder.kernel, prefetching=prefetching, branchless=branchless)
    return other


def _archive(path: Path, frames: Frames) -> FrameArchive:
    writer = create_archive(path, frames.shape, frames.dtype, overwrite=True)
    writer.write_frames(0, frames)
    return writer.archive()


def _same(found: list[Clusters], expected: list[Clusters], n_frames: int) -> bool:
    """Whether all of `found` is what is expected of the first `n_frames` frames, to the last bit."""
    whole = sum(int(part.n_clusters.sum()) for part in found)
    per_frame = np.concatenate([part.n_clusters for part in expected])[:n_frames]
    return whole == int(per_frame.sum()) and _digest(found, whole) == _digest(expected, whole)


def _digest(parts: list[Clusters], n: int) -> str:
    """Of the first `n` clusters: how many in each frame is checked apart."""
    digest = hashlib.sha256()
    for name in ("y", "x", "signal"):
        digest.update(np.concatenate([getattr(part, name) for part in parts])[:n].tobytes())
    return digest.hexdigest()
