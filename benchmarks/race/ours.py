"""photonflow's finder as it takes part: frames in memory, in blocks as a run reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.race.timing import Lap, lap_of
from finder import Chain, Clusters, Finder, FinderParameters, Pedestal, open_finder

BLOCK_BYTES = 8 << 20

Positions = npt.NDArray[np.int32]


def blocks_of(frames: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The frames in blocks of about 8 MiB."""
    step = max(1, BLOCK_BYTES // frames[0].nbytes)
    for first in range(0, len(frames), step):
        yield frames[first : first + step]


def search(chain: Chain, frames: npt.NDArray[Any]) -> int:
    """Search all frames in one chain; how many clusters there are."""
    return sum(len(chain.find(block)) for block in blocks_of(frames))


def positions(finder: Finder, frames: npt.NDArray[Any], pedestal: Pedestal) -> Positions:
    """(frame, y, x) of all clusters in one chain, int32 (cluster, 3)."""
    found: Clusters = finder.find(frames, pedestal)
    return np.stack([found.frame_index, found.y, found.x], axis=1).astype(np.int32)


def one_core(
    frames: npt.NDArray[Any], pedestal: Pedestal, parameters: FinderParameters, mask: npt.NDArray[Any] | None = None
) -> Callable[[], Lap]:
    """Runs one chain over all frames on one core; the chain is opened untimed, as the peer is trained untimed."""
    finder = open_finder("cpu", parameters, frames.shape[1:], mask)

    def lap() -> Lap:
        chain = finder.chain(pedestal)
        return lap_of(lambda: search(chain, frames))

    return lap


def threads(frames: npt.NDArray[Any], finder: Finder, pedestal: Pedestal, n: int) -> Callable[[], Lap]:
    """Runs a chain for each n-th of the frames, all at once, a thread each."""
    parts = np.array_split(frames, n)
    pool = ThreadPoolExecutor(n)

    def lap() -> Lap:
        chains = [finder.chain(pedestal) for _ in parts]
        return lap_of(lambda: sum(pool.map(search, chains, parts)))

    return lap
