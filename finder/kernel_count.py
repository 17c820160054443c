"""Counting in the compiled finder: how often each pixel was quiet, and blind.

A tile's bits are added to counters that are bit-sliced: digit d of 64 pixels' counts is one word. Adding a bit is a
ripple of half adders over the digits, on whole vectors of words; 255 frames later the counts are added to plain ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from finder.kernel_instructions import emitted
from finder.kernel_types import DIGITS, TILE_ROWS, Fields
from finder.simd import INT64_TYPE

FLOATS_A_WORD = 2  # A vector register of floats holds half as many words of 64 bits.


@emitted
def count_bits(typing: Any, kernel: Any, image: Any, tile: Any, scratch: Any, counters: Any) -> Any:
    """Add a tile's bits to its counters."""
    signature = types.void(kernel, image, tile, scratch, counters)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, image, tile, scratch, counters = arguments
        bits = Fields(context, builder, signature.args[3], scratch)
        planes = Fields(context, builder, signature.args[4], counters)
        mark_words = Fields(context, builder, signature.args[1], image).scalar("mark_words")
        n_words = builder.mul(mark_words, INT64_TYPE(TILE_ROWS))
        first = builder.mul(tile, builder.mul(n_words, INT64_TYPE(DIGITS)))
        step = kernel.kernel.lanes // FLOATS_A_WORD
        words = ir.VectorType(INT64_TYPE, step)

        def vector(fields: Fields, name: str, index: Any) -> Any:
            return builder.bitcast(fields.element(name, index), words.as_pointer())

        def add(name: str, word: Any, bits: Any) -> None:
            carry = bits
            for digit in range(DIGITS):
                index = builder.add(builder.add(first, builder.mul(n_words, INT64_TYPE(digit))), word)
                address = vector(planes, name, index)
                before = builder.load(address, align=8)
                builder.store(builder.xor(before, carry), address, align=8)
                carry = builder.and_(before, carry)

        with cgutils.for_range_slice(builder, INT64_TYPE(0), n_words, INT64_TYPE(step), inc=True) as (word, _):
            add("quiet", word, builder.load(vector(bits, "quiet", word), align=8))
            blind = builder.load(vector(bits, "blind", word), align=8)
            as_number = builder.bitcast(blind, ir.IntType(64 * step))
            with builder.if_then(builder.icmp_unsigned("!=", as_number, as_number.type(0)), likely=False):
                add("blind", word, blind)
        return context.get_dummy_value()

    return signature, generate


def add_up(sliced: Any, total: Any) -> Any:
    """Add bit-sliced counts to plain ones, and set them to 0.

    Args:
        sliced: uint64 (tile, digit, row, word).
        total: uint32 (tile, row, column), at most 64 columns a word.
    """
    one = np.uint64(1)
    for tile in range(sliced.shape[0]):
        for row in range(sliced.shape[2]):
            for word in range(sliced.shape[3]):
                columns = min(64, total.shape[2] - 64 * word)
                for digit in range(sliced.shape[1]):
                    bits = sliced[tile, digit, row, word]
                    sliced[tile, digit, row, word] = 0
                    if bits:
                        for column in range(columns):
                            bit = (bits >> np.uint64(column)) & one
                            total[tile, row, 64 * word + column] += np.uint32(bit << np.uint64(digit))
