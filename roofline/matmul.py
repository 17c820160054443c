"""The traffic of a matrix multiply C[m, n] = A[m, k] · B[k, n] between a slow and a fast memory.

Elements that cross are counted; inside the fast memory everything is free. A multiply and an add are two operations.
The counting multiply (:func:`tiled_multiply`) and the closed forms say the same; the tests hold them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Traffic:
    """Elements that cross between the slow and the fast memory."""

    loads: int
    stores: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.loads + other.loads, self.stores + other.stores)

    @property
    def elements(self) -> int:
        """Loads and stores."""
        return self.loads + self.stores

    def nbytes(self, itemsize: int) -> int:
        """Bytes, with `itemsize` bytes an element."""
        return self.elements * itemsize


@dataclass(frozen=True)
class Multiply:
    """The sizes of C[m, n] = A[m, k] · B[k, n].

    Raises:
        ValueError: A side below 1.
    """

    m: int
    k: int
    n: int

    def __post_init__(self) -> None:
        if min(self.m, self.k, self.n) < 1:
            raise ValueError(f"a multiply of {self.m}×{self.k} and {self.k}×{self.n}: every side is at least 1")

    @property
    def flops(self) -> int:
        """Operations: 2·m·n·k."""
        return 2 * self.m * self.n * self.k

    @property
    def least_traffic(self) -> Traffic:
        """Each element of A and B loaded once, each of C stored once."""
        return Traffic(self.m * self.k + self.k * self.n, self.m * self.n)

    def tiled_traffic(self, tile: int) -> Traffic:
        """Traffic with square tiles, in closed form: ⌈n/b⌉·m·k + ⌈m/b⌉·k·n loads, m·n stores.

        A tile of 1 is the multiply without any reuse, 2·m·n·k loads.
        """
        _require_tile(tile)
        return Traffic(-(-self.n // tile) * self.m * self.k + -(-self.m // tile) * self.k * self.n, self.m * self.n)

    def intensity(self, itemsize: int, tile: int | None = None) -> float:
        """Operations a byte, in FLOP/B: with tiles of a side, or without one the best that there is."""
        return float(self._exact_intensity(itemsize, tile))

    def _exact_intensity(self, itemsize: int, tile: int | None) -> Fraction:
        traffic = self.least_traffic if tile is None else self.tiled_traffic(tile)
        return Fraction(self.flops, traffic.nbytes(itemsize))


@dataclass(frozen=True)
class TileStep:
    """One step of the tiled multiply: the product of a tile of A and a tile of B is added to a tile of C.

    Args:
        rows: The tile's rows of A and C.
        inner: Its columns of A, rows of B.
        columns: Its columns of B and C.
        traffic: Elements loaded for it; with the last step of a tile of C also those of C stored.
        flops: Operations.
    """

    rows: slice
    inner: slice
    columns: slice
    traffic: Traffic
    flops: int


def tile_steps(sizes: Multiply, tile: int) -> Iterator[TileStep]:
    """The steps of a tiled multiply, one tile of C after the other, each along all of k."""
    _require_tile(tile)
    for rows in _tiles(sizes.m, tile):
        for columns in _tiles(sizes.n, tile):
            for inner in _tiles(sizes.k, tile):
                height, width, depth = (_length(side) for side in (rows, columns, inner))
                stores = height * width if inner.stop == sizes.k else 0
                traffic = Traffic(height * depth + depth * width, stores)
                yield TileStep(rows, inner, columns, traffic, 2 * height * width * depth)


def tiled_multiply(a: NDArray[Any], b: NDArray[Any], tile: int) -> tuple[NDArray[Any], Traffic]:
    """The product of `a` (m, k) and `b` (k, n), tile by tile, and the elements that really were copied for it.

    Raises:
        ValueError: The shapes don't fit together, or the tile is below 1.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matrices of the shapes {a.shape} and {b.shape} can't be multiplied")
    product = np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b))
    loads = stores = 0
    fast_c = np.zeros((0, 0), product.dtype)
    for step in tile_steps(Multiply(a.shape[0], a.shape[1], b.shape[1]), tile):
        fast_a, fast_b = a[step.rows, step.inner].copy(), b[step.inner, step.columns].copy()
        loads += fast_a.size + fast_b.size
        fast_c = fast_a @ fast_b if step.inner.start == 0 else fast_c + fast_a @ fast_b
        if step.inner.stop == a.shape[1]:
            product[step.rows, step.columns] = fast_c
            stores += fast_c.size
    return product, Traffic(loads, stores)


def tile_nbytes(tile: int, itemsize: int) -> int:
    """Fast memory that three tiles need, of A, B and C: 3·b²·s bytes."""
    _require_tile(tile)
    return 3 * tile * tile * itemsize


def largest_tile(fast_nbytes: int, itemsize: int) -> int:
    """The largest tile that `fast_nbytes` of fast memory hold: ⌊√(bytes / 3s)⌋; 0 if not even one element fits."""
    return math.isqrt(fast_nbytes // (3 * itemsize))


def smallest_tile_at_ridge(sizes: Multiply, itemsize: int, ridge: float) -> int | None:
    """The smallest tile whose intensity reaches the ridge point (FLOP/B); None if none does.

    The number of tiles is a whole one, so the intensity climbs in steps and a formula misses the answer.
    """
    wanted = Fraction(ridge)
    for tile in range(1, max(sizes.m, sizes.n) + 1):
        if sizes._exact_intensity(itemsize, tile) >= wanted:
            return tile
    return None


def tile_at_ridge_for_large_n(itemsize: int, ridge: float) -> float:
    """The tile at the ridge when the stores of C don't count: s · ridge, since the intensity is b/s."""
    return itemsize * ridge


def tile_at_ridge_with_stores(n: int, itemsize: int, ridge: float) -> float:
    """The tile at the ridge for n×n matrices, the stores of C counted, the number of tiles a fraction.

    From 2n³ / ((2n³/b + n²)·s) = ridge. Infinite if the ridge is out of reach.
    """
    room = 2 * n / (itemsize * ridge) - 1
    return 2 * n / room if room > 0 else math.inf


def smallest_batch_at_ridge(k: int, n: int, itemsize: int, ridge: float) -> int | None:
    """The smallest m with which (m×k)·(k×n), each element moved once, reaches the ridge; None if none does.

    From 2·m·n·k ≥ ridge·s·(m·k + k·n + m·n).
    """
    wanted = Fraction(ridge) * itemsize
    gain = 2 * n * k - wanted * (k + n)
    return math.ceil(wanted * k * n / gain) if gain > 0 else None


def weight_read_seconds(parameters: float, itemsize: int, bandwidth: float) -> float:
    """Time to read all weights of a model once, in s: each token of a batch of one takes at least so long."""
    return parameters * itemsize / bandwidth


def _tiles(length: int, tile: int) -> list[slice]:
    return [slice(first, min(first + tile, length)) for first in range(0, length, tile)]


def _length(side: slice) -> int:
    length: int = side.stop - side.start
    return length


def _require_tile(tile: int) -> None:
    if tile < 1:
        raise ValueError(f"a tile of {tile}×{tile}: its side is at least 1")
