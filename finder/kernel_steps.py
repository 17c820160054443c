"""The bodies of the CPU finder's inner loops, written as vectors.

`subtract_row` makes the pedestal-subtracted values of a row. `decide` does the rest for a stripe, one vector wide and a
tile (8 rows) high: window sums and maxima, the decision, the update. It is the design's arithmetic, with three
identities that save comparisons:

- With w = max(M, −v), "v < 0 and v·v > t, or M·M > t" is w·w > t, because rounding keeps the order of squares.
- "T > 0 and T·T > area·t" is T₊·T₊ > area·t with T₊ = max(T, 0), because t ≥ 0.
- v == M among those that pass is v == w, because where v < 0 neither holds (M ≥ 0, w > 0).

Absent pixels hold y = s1 = s2 = 0, so v = t = 0 there: they count for nothing in a window; an update leaves them 0; and
they are no centre, because v == w = 0 means that nothing around them is above 0, and then nothing passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from finder.kernel_types import (
    INT16,
    INT32,
    READY,
    RING_MARGIN,
    RING_ROWS,
    SOURCE_CODES,
    TILE_ROWS,
    UINT8,
    UINT16,
    Fields,
    offset,
)
from finder.simd import INT8_TYPE, INT32_TYPE, INT64_TYPE, Floats, Vectors, maximum, maximum_of, sum_in_order

# Numba's, which have no types of their own.
_get_or_insert_function: Any = cgutils.get_or_insert_function
_raw_memcpy: Any = cgutils.raw_memcpy


def emitted(generator: Callable[..., Any]) -> Any:
    """A function for compiled code whose body a generator writes with LLVM's builder: Numba's `intrinsic`."""
    return intrinsic(generator)


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
        vectors.store(y - r, self.scratch.element("values", slot))
        if self.kernel.running:
            vectors.store(y, self.scratch.element("differences", slot))

    def _difference(self, code: int, column: Any, x0: Any) -> Floats:
        """y = float32(X − X0)."""
        itemsize = {UINT8: 1, UINT16: 2, INT16: 2}.get(code, 4)
        start = self.builder.add(self.source, self.builder.mul(column, INT64_TYPE(itemsize)))
        address = self.builder.inttoptr(start, INT8_TYPE.as_pointer())
        if code == READY:  # y itself.
            return self.vectors.load(address)
        if itemsize == 4:
            return self.vectors.large_difference(address, code == INT32, x0)
        return self.vectors.small_difference(address, 8 * itemsize, code == INT16, x0)


@emitted
def decide(
    typing: Any, kernel: Any, image: Any, column: Any, plane: Any, ring: Any, ring_before: Any,
    planes: Any, scratch: Any, constants: Any,
) -> Any:  # fmt: skip
    """Find and update in one stripe of a tile, and mark its clusters.

    The tile's values are rows r … r + 7 of the image; its centres lie half a window above: rows r − up … r + 7 − up.

    Args:
        column: the stripe's first column.
        plane: index of the first centre row's first element in the state planes.
        ring, ring_before: index of the first element of the tile's rows in the ring, and of the tile's before.
    """
    signature = types.void(kernel, image, column, plane, ring, ring_before, planes, scratch, constants)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, image, column, plane, ring, ring_before, planes, scratch, constants = arguments
        stripe = _Stripe(
            kernel.kernel,
            builder,
            column,
            image=Fields(context, builder, signature.args[1], image),
            planes=Fields(context, builder, signature.args[6], planes),
            scratch=Fields(context, builder, signature.args[7], scratch),
            constants=Fields(context, builder, signature.args[8], constants),
            plane=plane,
            ring=ring,
            ring_before=ring_before,
        )
        stripe.generate()
        return context.get_dummy_value()

    return signature, generate


class _Stripe:
    """Writes the code of `decide`."""

    def __init__(
        self, kernel: Any, builder: Any, column: Any, image: Fields, planes: Fields, scratch: Fields, constants: Fields,
        plane: Any, ring: Any, ring_before: Any,
    ) -> None:  # fmt: skip
        self.kernel, self.builder, self.column = kernel, builder, column
        self.planes, self.scratch = planes, scratch
        self.padded, self.ring_stride = image.scalar("padded"), image.scalar("ring_stride")
        self.mark_bytes = builder.mul(image.scalar("mark_words"), INT64_TYPE(8))
        self.plane, self.ring, self.ring_before = plane, ring, ring_before
        self.up, self.left = kernel.rows // 2, kernel.cols // 2
        self.vectors = Vectors(builder, kernel.lanes)
        self.inv_n = self.vectors.splat(constants.scalar("inv_n"))
        self.ns2 = self.vectors.splat(constants.scalar("ns2"))
        self.area = self.vectors.splat(constants.scalar("area"))
        self.zero = self.vectors.zero()

    def generate(self) -> None:
        """All rows of the tile, top to bottom. Sums and maxima of the rows above come from the tile before."""
        carried = range(2 * self.up)
        sums = [self.vectors.load(self._carried("row_sums", row)) for row in carried]
        maxima = [self.vectors.load(self._carried("row_maxima", row)) for row in carried]
        sliding = SlidingMaximum(self.kernel.rows, maxima)
        for row in range(TILE_ROWS):
            values = self._values_around(row)
            sums.append(sum_in_order(values))
            maxima.append(maximum_of(values))
            self._decide_row(row, sum_in_order(sums[-self.kernel.rows :]), sliding.next(maxima[-1]))
        for row in carried:
            self.vectors.store(sums[TILE_ROWS + row], self._carried("row_sums", row))
            self.vectors.store(maxima[TILE_ROWS + row], self._carried("row_maxima", row))

    def _decide_row(self, row: int, window_sum: Floats, window_maximum: Floats) -> None:
        """The decision for one row of centres."""
        vectors, running = self.vectors, self.kernel.running
        s1_address, s2_address = self._plane("s1", row), self._plane("s2", row)
        v = vectors.load(self._ring("values", row - self.up))
        s1, s2 = vectors.load(s1_address), vectors.load(s2_address)
        if running:
            r = s1 * self.inv_n
            m = s2 * self.inv_n
            t = maximum(self.ns2 * (m - r * r), self.zero)
        else:
            t = s2
        w = maximum(window_maximum, -v)
        positive_sum = maximum(window_sum, self.zero)
        quiet = (w * w <= t) & (positive_sum * positive_sum <= self.area * t)
        vectors.store_mask(v.equals(w) & ~quiet, self._mark(row))
        vectors.store(quiet.choose(s1 + v, s1), s1_address)
        if running:
            y = vectors.load(self._ring("differences", row - self.up))
            vectors.store(quiet.choose(s2 + (y * y - m), s2), s2_address)

    def _values_around(self, row: int) -> list[Floats]:
        """v of the pixels in a window's row, left to right."""
        centre = self._ring("values", row)
        return [self.vectors.load(offset(self.builder, centre, side)) for side in range(-self.left, self.left + 1)]

    def _ring(self, name: str, row: int) -> Any:
        """Address in a ring; row 0 is the tile's first, negative rows belong to the tile before."""
        base = self.ring if row >= 0 else self.ring_before
        start = self.builder.add(base, self.builder.mul(self.ring_stride, INT64_TYPE(row % TILE_ROWS)))
        return self.scratch.element(name, self.builder.add(start, self.column))

    def _plane(self, name: str, row: int) -> Any:
        """Address in a state plane; row 0 is the tile's first row of centres."""
        start = self.builder.add(self.plane, self.builder.mul(self.padded, INT64_TYPE(row)))
        return self.planes.element(name, self.builder.add(start, self.column))

    def _carried(self, name: str, row: int) -> Any:
        """Address in the sums or maxima kept from tile to tile."""
        return self.scratch.element(name, self.builder.add(self.builder.mul(self.padded, INT64_TYPE(row)), self.column))

    def _mark(self, row: int) -> Any:
        """Address of the marks of this stripe's pixels in a row of centres."""
        marks = self.builder.bitcast(self.scratch.element("marks", INT64_TYPE(0)), INT8_TYPE.as_pointer())
        byte = self.builder.add(
            self.builder.mul(self.mark_bytes, INT64_TYPE(row)), self.builder.lshr(self.column, INT64_TYPE(3))
        )
        return self.builder.gep(marks, [byte])


class SlidingMaximum:
    """The maximum of the last `length` vectors of a sequence, in log₂(length) steps each.

    Maxima of 2, 4, … consecutive vectors are kept; two of the largest power of two that fits overlap to make `length`.
    """

    def __init__(self, length: int, first: list[Floats]) -> None:
        self.length = length
        self.spans: list[list[Floats]] = [[]]  # spans[k]: maxima of 2ᵏ consecutive vectors, by their last one.
        while 2 ** len(self.spans) <= length:
            self.spans.append([])
        for vector in first:
            self._append(vector)

    def next(self, vector: Floats) -> Floats:
        """Take the next vector; the maximum of the last `length`."""
        self._append(vector)
        widest = self.spans[-1]
        return maximum(widest[-1], widest[-1 - (self.length - 2 ** (len(self.spans) - 1))])

    def _append(self, vector: Floats) -> None:
        self.spans[0].append(vector)
        for power in range(1, len(self.spans)):
            narrower = self.spans[power - 1]
            step = 2 ** (power - 1)
            if len(narrower) > step:
                self.spans[power].append(maximum(narrower[-1 - step], narrower[-1]))


@emitted
def copy_window_row(typing: Any, kernel: Any, scratch: Any, start: Any, found: Any, end: Any) -> Any:
    """Copy one row of a cluster's window from the ring at `start` to the signal at `end`.

    It copies whole groups of four, so up to three values too many, which the next row overwrites: the signal needs room
    for three more behind its last value.
    """
    signature = types.void(kernel, scratch, start, found, end)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, scratch, start, found, end = arguments
        source = Fields(context, builder, signature.args[1], scratch).element("values", start)
        target = Fields(context, builder, signature.args[3], found).element("signal", end)
        group = Vectors(builder, 4)
        for first in range(0, kernel.kernel.cols, 4):
            group.store(group.load(offset(builder, source, first)), offset(builder, target, first))
        return context.get_dummy_value()

    return signature, generate


@emitted
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for the cache line at an address; harmless wherever it points."""
    signature = types.void(address)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _prefetch(builder, builder.inttoptr(arguments[0], INT8_TYPE.as_pointer()), for_writing=False)
        return context.get_dummy_value()

    return signature, generate


@emitted
def prefetch_signal(typing: Any, found: Any, index: Any) -> Any:
    """Ask for the cache line of signal[index], to write there soon."""
    signature = types.void(found, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found, index = arguments
        address = Fields(context, builder, signature.args[0], found).element("signal", index)
        _prefetch(builder, builder.bitcast(address, INT8_TYPE.as_pointer()), for_writing=True)
        return context.get_dummy_value()

    return signature, generate


def _prefetch(builder: Any, pointer: Any, for_writing: bool) -> None:
    function_type = ir.FunctionType(ir.VoidType(), [pointer.type, *[INT32_TYPE] * 3])
    function = _get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    keep_in_cache, data = INT32_TYPE(3), INT32_TYPE(1)
    builder.call(function, [pointer, INT32_TYPE(int(for_writing)), keep_in_cache, data])


@emitted
def copied(typing: Any, target: Any, source: Any, n_bytes: Any) -> Any:
    """Copy bytes from the address `source` to the array `target`; the target's address."""
    signature = types.int64(target, source, n_bytes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, n_bytes = arguments
        data = context.make_array(signature.args[0])(context, builder, target).data
        _raw_memcpy(builder, data, builder.inttoptr(source, INT8_TYPE.as_pointer()), n_bytes, 1)
        return builder.ptrtoint(data, INT64_TYPE)

    return signature, generate


@emitted
def count_ones(typing: Any, word: Any) -> Any:
    """Bits set in a uint64, as int64."""
    return types.int64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@emitted
def lowest_one(typing: Any, word: Any) -> Any:
    """Index of the lowest bit set in a uint64, as int64; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate
