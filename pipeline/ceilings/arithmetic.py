"""Loops that do nothing but arithmetic, and loops that do nothing but move memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from llvmlite import ir
from numba import types

from finder.kernel_instructions import emitted
from finder.processor import host_lanes
from finder.stored_code import stored_njit
from pipeline.ceilings.crew import Done

# Independent sums, enough to hide an instruction's latency behind the others'.
CHAINS = 12
STEPS = 100_000
ARRAY_BYTES = 64 << 20  # Well beyond a core's share of cache.
FLOAT, INTEGER = ir.FloatType(), ir.IntType(32)


@dataclass(frozen=True)
class Arithmetic:
    """Multiplications and additions on vectors in registers, as the finder does them: not fused.

    Args:
        kind: The elements' type.
    """

    kind: Literal["float32", "int32"]

    def __str__(self) -> str:
        return f"{self.kind} arithmetic"

    def prepared(self, member: int) -> Callable[[], Done]:
        """A hundred thousand steps of twelve vectors each."""
        loop = {"float32": _float_loop, "int32": _integer_loop}[self.kind]

        def step() -> Done:
            loop(STEPS)
            return Done(2.0 * STEPS * CHAINS * host_lanes())

        return step


@dataclass(frozen=True)
class Memory:
    """Arrays far larger than the caches, copied (a = b) or combined (triad, a = b + s · c).

    Bytes are counted as STREAM counts them: what the program reads and writes.
    """

    kind: Literal["copy", "triad"]

    def __str__(self) -> str:
        return f"memory {self.kind}"

    def prepared(self, member: int) -> Callable[[], Done]:
        """Some megabytes at a time, through all of the arrays."""
        a, b, c = (np.full(ARRAY_BYTES // 4, value, np.float32) for value in (0, 1, 2))
        part = len(a) // 16
        place = 0

        def step() -> Done:
            nonlocal place
            here = slice(place, place + part)
            place = (place + part) % len(a)
            if self.kind == "copy":
                _copy(a[here], b[here])
                return Done(2.0 * 4 * part)
            _triad(a[here], b[here], c[here], np.float32(0.5))
            return Done(3.0 * 4 * part)

        return step


@stored_njit
def _copy(a: Any, b: Any) -> None:
    for i in range(len(a)):
        a[i] = b[i]


@stored_njit
def _triad(a: Any, b: Any, c: Any, s: Any) -> None:
    for i in range(len(a)):
        a[i] = b[i] + s * c[i]


def _chains(element: Any, n_steps: Any, builder: Any) -> Any:
    """The loop: CHAINS vectors, each multiplied and added to in each step; the first lane of their sum."""
    is_float = element == FLOAT
    vector = ir.VectorType(element, host_lanes())
    factor = ir.Constant(vector, [1.0 - 2**-20 if is_float else 3] * host_lanes())
    term = ir.Constant(vector, [2.0**-20 if is_float else 1] * host_lanes())
    multiply, add = (builder.fmul, builder.fadd) if is_float else (builder.mul, builder.add)
    before = builder.block
    loop, after = builder.append_basic_block("steps"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(n_steps.type)
    values = [builder.phi(vector) for _ in range(CHAINS)]
    following = [add(multiply(value, factor), term) for value in values]
    next_step = builder.add(step, n_steps.type(1))
    step.add_incoming(n_steps.type(0), before)
    step.add_incoming(next_step, loop)
    for chain, (value, then) in enumerate(zip(values, following, strict=True)):
        first = float(chain) if is_float else chain
        value.add_incoming(ir.Constant(vector, [first] * host_lanes()), before)
        value.add_incoming(then, loop)
    builder.cbranch(builder.icmp_signed("<", next_step, n_steps), loop, after)
    builder.position_at_end(after)
    total = following[0]
    for value in following[1:]:
        total = add(total, value)
    return builder.extract_element(total, INTEGER(0))


@emitted
def _float_chains(typing: Any, n_steps: Any) -> Any:
    return types.float32(types.int64), lambda context, builder, signature, args: _chains(FLOAT, args[0], builder)


@emitted
def _integer_chains(typing: Any, n_steps: Any) -> Any:
    return types.int32(types.int64), lambda context, builder, signature, args: _chains(INTEGER, args[0], builder)


@stored_njit
def _float_loop(n_steps: Any) -> Any:
    return _float_chains(n_steps)


@stored_njit
def _integer_loop(n_steps: Any) -> Any:
    return _integer_chains(n_steps)
