"""What a worker counts of a batch's clusters, and the digest that knows them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from finder import Clusters, rounded
from finder.interface import Chain
from finder.products import ProductCounter, ProductOptions, Products


class Counting:
    """Counts what a run wants of the clusters of one batch: on the GPU, where the finder does that, or here.

    Args:
        counter: Makes what counts here.
        wanted: What is counted.
        by_finder: What the finder's chains count themselves: all of it, or nothing.
    """

    def __init__(
        self, counter: Callable[[], ProductCounter], wanted: ProductOptions, by_finder: ProductOptions
    ) -> None:
        self._is_here = not by_finder.names
        self._counter = counter() if wanted.names and self._is_here else None

    def count(self, chain: Chain, frames: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        """Count the clusters of a chain's next frames (frame, y, x), which nobody wants to have.

        Returns:
            How many clusters each frame has.
        """
        if not self._is_here:
            return chain.count(frames)
        found = chain.find(frames)
        if self._counter is not None:
            self._counter.add(found.y, found.x, rounded(found.signal, np.int32))
        return found.n_clusters

    def add(self, found: Clusters, signal: npt.NDArray[Any]) -> None:
        """Count clusters that a chain has found, with their signals as they are stored."""
        if self._counter is not None:
            self._counter.add(found.y, found.x, signal if signal.dtype == np.int32 else rounded(found.signal, np.int32))

    def products(self, chain: Chain) -> Products:
        """What was counted.

        Raises:
            SignalRangeError: A cluster has a value that is too large to be counted.
        """
        return chain.products if self._counter is None else self._counter.products


class BatchDigest:
    """A digest of what was found in a batch, whatever the blocks in which it comes and the finder that finds it."""

    def __init__(self) -> None:
        self._columns = {name: xxhash.xxh3_128() for name in ("y", "x", "signal")}

    def add(self, **columns: npt.NDArray[Any]) -> None:
        """Take clusters."""
        for name, values in columns.items():
            self._columns[name].update(np.ascontiguousarray(values).data)

    def add_products(self, products: Products) -> None:
        """Take what was counted, where there is no list of the clusters."""
        for counts in products.arrays:
            self._columns["signal"].update(np.ascontiguousarray(counts, np.int64).data)

    def hexdigest(self, clusters_in_frame: npt.NDArray[np.uint32]) -> str:
        """Take the number of clusters in each frame, and return 32 hexadecimal digits."""
        whole = xxhash.xxh3_128(clusters_in_frame.data)
        for column in self._columns.values():
            whole.update(column.digest())
        return whole.hexdigest()
