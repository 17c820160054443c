"""Counting in the compiled finder: how often each pixel was a centre, was quiet, and was blind.

A frame's marks are a bit a pixel. Adding them to plain counts frame by frame would cost as much as the rest of the
finder, so they are kept for 15 frames; then the four binary digits of their sums are made in registers, 64 pixels a
word, and added to counts whose eight digits are kept as bits likewise; 255 frames later those are added to plain ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from finder.kernel_fields import Fields
from finder.kernel_instructions import emitted
from finder.kernel_types import DIGITS, N_MARKS, SLOTS, TILE_ROWS
from finder.simd import INT64_TYPE

FLOATS_A_WORD = 2  # A vector register of floats holds half as many words of 64 bits.
SUM_DIGITS = SLOTS.bit_length()


@emitted
def count_marks(typing: Any, kernel: Any, image: Any, counters: Any) -> Any:
    """Add the marks of the slots in use to the counts, and set the slots free."""
    signature = types.void(kernel, image, counters)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, image, counters = arguments
        fields = Fields(context, builder, signature.args[2], counters)
        sizes = Fields(context, builder, signature.args[1], image)
        _Counting(kernel.kernel.lanes // FLOATS_A_WORD, builder, sizes, fields).generate()
        return context.get_dummy_value()

    return signature, generate


class _Counting:
    """Writes the code of `count_marks`."""

    def __init__(self, words: int, builder: Any, image: Fields, counters: Fields) -> None:
        self.builder, self.counters, self.words = builder, counters, words
        self.type = ir.VectorType(INT64_TYPE, words)
        self.tile_words = builder.mul(image.scalar("mark_words"), INT64_TYPE(TILE_ROWS))
        self.planes = builder.mul(image.scalar("tiles"), INT64_TYPE(N_MARKS))
        self.slot_words = builder.mul(self.planes, self.tile_words)
        self.n_marked = counters.element("n_marked", INT64_TYPE(0))

    def generate(self) -> None:
        """All marks of all tiles, a vector at a time."""
        builder = self.builder
        n_marked = builder.load(self.n_marked)
        with cgutils.for_range(builder, self.planes) as plane:
            first = builder.mul(plane.index, self.tile_words)
            with cgutils.for_range_slice(builder, INT64_TYPE(0), self.tile_words, INT64_TYPE(self.words), inc=True) as (
                word,
                _,
            ):
                self._add(self._summed(builder.add(first, word), n_marked), first, word)
        builder.store(INT64_TYPE(0), self.n_marked)

    def _summed(self, mark: Any, n_marked: Any) -> list[Any]:
        """The digits of the sums of a vector of marks over the slots."""
        builder = self.builder
        none = ir.Constant(self.type, None)
        # In registers: LLVM keeps no variable in memory whose address nobody takes.
        variables = [cgutils.alloca_once_value(builder, none) for _ in range(SUM_DIGITS)]
        for variable in variables:
            builder.store(none, variable)
        with cgutils.for_range(builder, n_marked) as slot:
            index = builder.add(builder.mul(slot.index, self.slot_words), mark)
            carry = builder.load(self._vector("marks", index), align=8)
            for variable in variables:
                digit = builder.load(variable)
                builder.store(builder.xor(digit, carry), variable)
                carry = builder.and_(digit, carry)
        return [builder.load(variable) for variable in variables]

    def _add(self, summed: Sequence[Any], first: Any, word: Any) -> None:
        """Add sums to the counts: full adders while the sums have digits, half adders above."""
        builder = self.builder
        any_bit = summed[0]
        for digit in summed[1:]:
            any_bit = builder.or_(any_bit, digit)
        bits = builder.bitcast(any_bit, ir.IntType(64 * self.words))
        with builder.if_then(builder.icmp_unsigned("!=", bits, bits.type(0))):
            carry = None
            for position in range(DIGITS):
                row = builder.add(
                    builder.mul(first, INT64_TYPE(DIGITS)), builder.mul(self.tile_words, INT64_TYPE(position))
                )
                address = self._vector("digits", builder.add(row, word))
                count = builder.load(address, align=8)
                addend = summed[position] if position < len(summed) else None
                count, carry = self._added(count, addend, carry)
                builder.store(count, address, align=8)

    def _added(self, count: Any, addend: Any, carry: Any) -> tuple[Any, Any]:
        """The sum's digit and the carry; None is 0."""
        builder = self.builder
        total, carries = count, []
        for bit in (addend, carry):
            if bit is not None:
                carries.append(builder.and_(total, bit))
                total = builder.xor(total, bit)
        return total, carries[0] if len(carries) == 1 else builder.or_(*carries)

    def _vector(self, name: str, index: Any) -> Any:
        return self.builder.bitcast(self.counters.element(name, index), self.type.as_pointer())


def add_up(kernel: Any, image: Any, counters: Any, totals: Any) -> None:
    """Add all that was marked to plain counts, and begin anew.

    Args:
        kernel: the `Kernel` this is compiled for; only its vectors matter.
        image, counters: see kernel_types.
        totals: uint32 (mark, row, column), rows and columns as in a state plane.
    """
    count_marks(kernel, image, counters)
    n_words = TILE_ROWS * image.mark_words
    for tile in range(image.tiles):
        for mark in range(N_MARKS):
            for digit in range(DIGITS):
                first = ((tile * N_MARKS + mark) * DIGITS + digit) * n_words
                for index in range(n_words):
                    bits = counters.digits[first + index]
                    counters.digits[first + index] = 0
                    if bits:
                        row = tile * TILE_ROWS + index // image.mark_words
                        column = index % image.mark_words * 64
                        for bit in range(min(64, image.padded - column)):
                            one = (bits >> np.uint64(bit)) & np.uint64(1)
                            totals[mark, row, column + bit] += np.uint32(one << np.uint64(digit))
