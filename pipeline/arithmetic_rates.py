"""Small measured rates of this machine: what a multiply-add costs in plain Python, and with a BLAS behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REPEATS = 7
PYTHON_SIDE = 48
MATRIX_SIDE = 1024
VECTOR_SIDE = 4096


@dataclass(frozen=True)
class MeasuredRate:
    """How fast something was done.

    Args:
        name: What.
        flops: Operations of one repeat.
        nbytes: Bytes that one repeat has to move at least.
        seconds: Time of each repeat, in s, shortest first; what was run first is not among them.
    """

    name: str
    flops: int
    nbytes: int
    seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        """The middle one of the times."""
        return self.seconds[len(self.seconds) // 2]

    @property
    def flops_a_second(self) -> float:
        """FLOP/s at the median time."""
        return self.flops / self.median_seconds

    @property
    def bytes_a_second(self) -> float:
        """B/s at the median time."""
        return self.nbytes / self.median_seconds

    @property
    def spread(self) -> float:
        """The difference of the quartiles over the median."""
        quarter = len(self.seconds) // 4
        return (self.seconds[-1 - quarter] - self.seconds[quarter]) / self.median_seconds


def arithmetic_rates() -> tuple[MeasuredRate, ...]:
    """Measure a multiply in pure Python, and in float32 matrix · matrix and matrix · vector; takes a few seconds."""
    rng = np.random.default_rng(0)
    rows = rng.random((PYTHON_SIDE, PYTHON_SIDE)).tolist()
    square = rng.random((MATRIX_SIDE, MATRIX_SIDE), np.float32)
    matrix, vector = rng.random((VECTOR_SIDE, VECTOR_SIDE), np.float32), rng.random(VECTOR_SIDE, np.float32)
    return (
        _rate("pure Python, matrix · matrix", PYTHON_SIDE, 3, lambda: _python_multiply(rows, rows)),
        _rate("BLAS, matrix · matrix", MATRIX_SIDE, 3, lambda: square @ square),
        _rate("BLAS, matrix · vector", VECTOR_SIDE, 2, lambda: matrix @ vector),
    )


def _rate(name: str, side: int, power: int, task: Callable[[], object]) -> MeasuredRate:
    task()
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - begin)
    itemsize = 8 if power == 3 and side == PYTHON_SIDE else 4
    elements = 3 * side * side if power == 3 else side * side + 2 * side
    return MeasuredRate(f"{name}, n = {side}", 2 * side**power, elements * itemsize, tuple(sorted(seconds)))


def _python_multiply(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]
