"""The first loop of the compiled finder: the pedestal-subtracted values of a row, as vectors."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils

from finder.gain_bits import WORD_BITS
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
    Fields,
)
from finder.simd import INT8_TYPE, INT64_TYPE, Floats, Mask, Vectors


@emitted
def subtract_row(
    typing: Any, kernel: Any, code: Any, source: Any, row: Any, image: Any, planes: Any, scratch: Any, constants: Any
) -> Any:
    """v of one row of a frame (and y, where the noise runs), into the rings.

    Args:
        code: the frames' type, of SOURCE_CODES or READY.
        source: address of the frame's row; whole vectors are read from it, so up to one vector beyond its end.
        row: the row's number.
    """
    signature = types.void(kernel, code, source, row, image, planes, scratch, constants)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, code, source, row, image, planes, scratch, constants = arguments
        _RowOfValues(
            kernel.kernel,
            builder,
            code,
            source,
            row,
            image=Fields(context, builder, signature.args[4], image),
            planes=Fields(context, builder, signature.args[5], planes),
            scratch=Fields(context, builder, signature.args[6], scratch),
            constants=Fields(context, builder, signature.args[7], constants),
        ).generate()
        return context.get_dummy_value()

    return signature, generate


class _RowOfValues:
    """Writes the code of `subtract_row`: for each type of frames a loop over columns."""

    def __init__(
        self, kernel: Any, builder: Any, code: Any, source: Any, row: Any,
        image: Fields, planes: Fields, scratch: Fields, constants: Fields,
    ) -> None:  # fmt: skip
        self.kernel, self.builder, self.code, self.source = kernel, builder, code, source
        self.planes, self.scratch = planes, scratch
        self.vectors = Vectors(builder, kernel.lanes)
        self.inv_n = self.vectors.splat(constants.scalar("inv_n"))
        self.padded = image.scalar("padded")
        self.plane = builder.mul(builder.add(row, INT64_TYPE(kernel.rows // 2)), self.padded)
        self.bits = builder.lshr(builder.mul(row, self.padded), INT64_TYPE(3))
        slot = builder.and_(row, INT64_TYPE(RING_ROWS - 1))
        self.ring = builder.add(builder.mul(slot, image.scalar("ring_stride")), INT64_TYPE(RING_MARGIN))
        # Vectors up to here have all their pixels.
        complete = builder.load(planes.element("row_is_complete", row))
        whole = builder.and_(image.scalar("cols"), INT64_TYPE(-kernel.lanes))
        self.first_masked = builder.select(builder.icmp_unsigned("!=", complete, INT8_TYPE(0)), whole, INT64_TYPE(0))

    def generate(self) -> None:
        """The right loop for the type of frames at hand."""
        for code in (*SOURCE_CODES.values(), READY):
            with self.builder.if_then(self.builder.icmp_signed("==", self.code, INT64_TYPE(code))):
                self._columns(code, INT64_TYPE(0), self.first_masked, masked=False)
                self._columns(code, self.first_masked, self.padded, masked=True)

    def _columns(self, code: int, first: Any, end: Any, masked: bool) -> None:
        step = INT64_TYPE(self.kernel.lanes)
        with cgutils.for_range_slice(self.builder, first, end, step, inc=True) as (column, _):
            self._vector(code, column, masked)

    def _vector(self, code: int, column: Any, masked: bool) -> None:
        vectors, builder = self.vectors, self.builder
        pixel, slot = builder.add(self.plane, column), builder.add(self.ring, column)
        y = self._difference(code, column, self.planes.element("x0", pixel))
        if masked:
            byte = builder.add(self.bits, builder.lshr(column, INT64_TYPE(3)))
            y = vectors.load_mask(self.planes.element("present", byte)).choose(y, vectors.zero())
        r = vectors.load(self.planes.element("s1", pixel)) * self.inv_n
        v = y - r
        if self.kernel.gain_bits:
            in_gain = self._in_gain(code, column)
            v = in_gain.choose(v, vectors.zero())
            byte = builder.lshr(slot, INT64_TYPE(3))
            vectors.store_mask(in_gain, self.scratch.element("in_gain", byte))
        vectors.store(v, self.scratch.element("values", slot))
        if self.kernel.running:
            vectors.store(y, self.scratch.element("differences", slot))

    def _difference(self, code: int, column: Any, x0: Any) -> Floats:
        """y = float32(X − X0)."""
        itemsize, address = self._pixels(code, column)
        if code == READY:  # y itself.
            return self.vectors.load(address)
        if itemsize == 4:
            return self.vectors.large_difference(address, code == INT32, x0)
        return self.vectors.small_difference(address, 8 * itemsize, code == INT16, x0)

    def _in_gain(self, code: int, column: Any) -> Mask:
        """Where the bits above the value are all 0."""
        itemsize, address = self._pixels(code, column)
        if code == READY:
            y = self.vectors.load(address)
            return y.equals(y)  # Not where it is NaN.
        if itemsize == 1:  # There are no bits that high.
            return self.vectors.everywhere()
        return self.vectors.below(address, 8 * itemsize, 1 << (WORD_BITS - self.kernel.gain_bits))

    def _pixels(self, code: int, column: Any) -> tuple[int, Any]:
        """Bytes a pixel, and the address of the frame's pixels from `column` on."""
        itemsize = {UINT8: 1, UINT16: 2, INT16: 2}.get(code, 4)
        start = self.builder.add(self.source, self.builder.mul(column, INT64_TYPE(itemsize)))
        return itemsize, self.builder.inttoptr(start, INT8_TYPE.as_pointer())
