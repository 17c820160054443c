"""The first loop of the compiled finder, as vectors: each pixel's value, its limit, and what its noise would gain.

All that depends on one pixel alone is computed here, along a row, where nothing waits for anything: the second loop
(kernel_decide.py) has the windows, and would otherwise spend its time waiting for the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types
from numba.core import cgutils

from finder.gain_bits import WORD_BITS
from finder.kernel_fields import Fields
from finder.kernel_instructions import emitted
from finder.kernel_types import (
    INT16,
    INT32,
    READY,
    RING_MARGIN,
    RING_ROWS,
    SOURCE_CODES,
    UINT8,
    UINT16,
)
from finder.simd import INT8_TYPE, INT64_TYPE, Floats, Mask, Vectors, maximum

BLIND_LIMIT = -1.0  # No square is below it, so a blind pixel is never quiet.


@emitted
def subtract_row(
    typing: Any, kernel: Any, source: Any, pixels: Any, row: Any, image: Any, planes: Any, scratch: Any,
    constants: Any, counters: Any,
) -> Any:  # fmt: skip
    """v, limit and step of one row of a frame, into the rings; counts its blind pixels.

    Args:
        source: see kernel_types.
        pixels: address of the frame's row; whole vectors are read from it, so up to one vector beyond its end.
        row: the row's number.
    """
    signature = types.void(kernel, source, pixels, row, image, planes, scratch, constants, counters)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, source, pixels, row, image, planes, scratch, constants, counters = arguments
        _RowOfValues(
            kernel.kernel,
            builder,
            pixels,
            row,
            source=Fields(context, builder, signature.args[1], source),
            image=Fields(context, builder, signature.args[4], image),
            planes=Fields(context, builder, signature.args[5], planes),
            scratch=Fields(context, builder, signature.args[6], scratch),
            constants=Fields(context, builder, signature.args[7], constants),
            counters=Fields(context, builder, signature.args[8], counters),
        ).generate()
        return context.get_dummy_value()

    return signature, generate


class _RowOfValues:
    """Writes the code of `subtract_row`: for each type of frames a loop over columns."""

    def __init__(
        self, kernel: Any, builder: Any, pixels: Any, row: Any, source: Fields,
        image: Fields, planes: Fields, scratch: Fields, constants: Fields, counters: Fields,
    ) -> None:  # fmt: skip
        self.kernel, self.builder, self.pixels, self.source = kernel, builder, pixels, source
        self.planes, self.scratch, self.counters = planes, scratch, counters
        self.vectors = Vectors(builder, kernel.lanes)
        self.inv_n = self.vectors.splat(constants.scalar("inv_n"))
        self.ns2 = self.vectors.splat(constants.scalar("ns2"))
        self.padded = image.scalar("padded")
        self.plane = builder.mul(builder.add(row, INT64_TYPE(kernel.rows // 2)), self.padded)
        self.bits = builder.lshr(builder.mul(row, self.padded), INT64_TYPE(3))
        slot = builder.and_(row, INT64_TYPE(RING_ROWS - 1))
        self.ring = builder.add(builder.mul(slot, image.scalar("ring_stride")), INT64_TYPE(RING_MARGIN))
        # Vectors up to here have all their pixels.
        complete = builder.load(planes.element("row_is_complete", row))
        whole = builder.and_(image.scalar("cols"), INT64_TYPE(-kernel.lanes))
        self.first_masked = builder.select(builder.icmp_unsigned("!=", complete, INT8_TYPE(0)), whole, INT64_TYPE(0))
        # The sign of each lane is set once a limit of that lane was negative.
        self.signs = cgutils.alloca_once_value(builder, self.vectors.no_bits())

    def generate(self) -> None:
        """The right loop for the type of frames at hand."""
        builder = self.builder
        builder.store(self.vectors.no_bits(), self.signs)
        code = self.source.scalar("code")
        for known in (*SOURCE_CODES.values(), READY):
            with builder.if_then(builder.icmp_signed("==", code, INT64_TYPE(known))):
                self._columns(INT64_TYPE(0), self.first_masked, partial(self._vector, known, masked=False))
                self._columns(self.first_masked, self.padded, partial(self._vector, known, masked=True))
        searched = builder.icmp_signed("!=", self.source.scalar("searched"), INT64_TYPE(0))
        with builder.if_then(builder.and_(searched, self.vectors.any_sign(builder.load(self.signs))), likely=False):
            self._columns(INT64_TYPE(0), self.padded, self._count_blind)

    def _columns(self, first: Any, end: Any, body: Callable[[Any], None]) -> None:
        step = INT64_TYPE(self.kernel.lanes)
        with cgutils.for_range_slice(self.builder, first, end, step, inc=True) as (column, _):
            body(column)

    def _vector(self, code: int, column: Any, *, masked: bool) -> None:
        vectors, builder, kernel = self.vectors, self.builder, self.kernel
        pixel, slot = builder.add(self.plane, column), builder.add(self.ring, column)
        y = self._difference(code, column, pixel)
        if masked:
            byte = builder.add(self.bits, builder.lshr(column, INT64_TYPE(3)))
            y = vectors.load_mask(self.planes.element("present", byte)).choose(y, vectors.zero())
        r = vectors.load(self.planes.element("s1", pixel)) * self.inv_n
        v = y - r
        t = vectors.load(self.planes.element("s2", pixel))
        if kernel.running:
            m = t * self.inv_n
            t = maximum(self.ns2 * (m - r * r), vectors.zero())
            vectors.store(y * y - m, self.scratch.element("steps", slot))
        if kernel.gain_bits:
            in_gain = self._in_gain(code, column)
            v = in_gain.choose(v, vectors.zero())
            t = in_gain.choose(t, vectors.constant(math.nan))
        limit = (v.is_negative() & (v * v > t)).choose(vectors.constant(BLIND_LIMIT), t)
        vectors.store(v, self.scratch.element("values", slot))
        vectors.store(limit, self.scratch.element("limits", slot))
        builder.store(builder.or_(builder.load(self.signs), limit.bits()), self.signs)

    def _count_blind(self, column: Any) -> None:
        limit = self.vectors.load(self.scratch.element("limits", self.builder.add(self.ring, column)))
        counts = self.counters.element("blind", self.builder.add(self.plane, column))
        self.vectors.count(self.vectors.zero() > limit, counts)

    def _difference(self, code: int, column: Any, pixel: Any) -> Floats:
        """y = float32(X − X0)."""
        itemsize, address = self._at(self.pixels, code, column)
        if code == READY:  # y itself.
            return self.vectors.load(address)
        _, x0 = self._at(self.source.scalar("x0"), code, pixel)
        if itemsize == 4:
            return self.vectors.large_difference(address, code == INT32, x0)
        return self.vectors.small_difference(address, 8 * itemsize, code == INT16, x0)

    def _in_gain(self, code: int, column: Any) -> Mask:
        """Where the bits above the value are all 0."""
        itemsize, address = self._at(self.pixels, code, column)
        if code == READY:
            y = self.vectors.load(address)
            return y.equals(y)  # Not where it is NaN.
        if itemsize == 1:  # There are no bits that high.
            return self.vectors.everywhere()
        return self.vectors.below(address, 8 * itemsize, 1 << (WORD_BITS - self.kernel.gain_bits))

    def _at(self, address: Any, code: int, element: Any) -> tuple[int, Any]:
        """Bytes of an integer of the frames' type, and a pointer to an element of those at `address`."""
        itemsize = {UINT8: 1, UINT16: 2, INT16: 2}.get(code, 4)
        start = self.builder.add(address, self.builder.mul(element, INT64_TYPE(itemsize)))
        return itemsize, self.builder.inttoptr(start, INT8_TYPE.as_pointer())
