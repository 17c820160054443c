"""The second loop of the compiled finder: sums, maxima, decision and update, as vectors.

`decide` works on a stripe, one vector wide and a tile (8 rows) high. It is the design's arithmetic, with three
identities that save comparisons:

- With w = max(M, −v), "v < 0 and v·v > t, or M·M > t" is w·w > t, because rounding keeps the order of squares.
- "T > 0 and T·T > area·t" is T₊·T₊ > area·t with T₊ = max(T, 0), because t ≥ 0.
- v == M among those that pass is v == w, because where v < 0 neither holds (M ≥ 0, w > 0).

Absent pixels hold y = s1 = s2 = 0, so v = t = 0 there: they count for nothing in a window; an update leaves them 0; and
they are no centre, because v == w = 0 means that nothing around them is above 0, and then nothing passes. Of a pixel in
another gain only v is 0: that it is not quiet, and so not updated, is known by its bit.
"""

from __future__ import annotations

from typing import Any

from numba import types

from finder.kernel_instructions import emitted
from finder.kernel_types import BLIND, CENTRE, QUIET, TILE_ROWS, Fields, offset
from finder.simd import INT8_TYPE, INT64_TYPE, Floats, Mask, Vectors, maximum, maximum_of, sum_in_order


@emitted
def decide(
    typing: Any, kernel: Any, image: Any, column: Any, plane: Any, marks: Any, ring: Any, ring_before: Any,
    planes: Any, scratch: Any, counters: Any, constants: Any,
) -> Any:  # fmt: skip
    """Find and update in one stripe of a tile, and mark its pixels.

    The tile's values are rows r … r + 7 of the image; its centres lie half a window above: rows r − up … r + 7 − up.

    Args:
        column: the stripe's first column.
        plane: index of the first centre row's first element in the state planes.
        marks: index of the tile's first word of marks, in its frame's slot.
        ring, ring_before: index of the first element of the tile's rows in the ring, and of the tile's before.
    """
    signature = types.void(kernel, image, column, plane, marks, ring, ring_before, planes, scratch, counters, constants)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, image, column, plane, marks, ring, ring_before, planes, scratch, counters, constants = arguments
        stripe = _Stripe(
            kernel.kernel,
            builder,
            column,
            image=Fields(context, builder, signature.args[1], image),
            planes=Fields(context, builder, signature.args[7], planes),
            scratch=Fields(context, builder, signature.args[8], scratch),
            counters=Fields(context, builder, signature.args[9], counters),
            constants=Fields(context, builder, signature.args[10], constants),
            plane=plane,
            marks=marks,
            ring=ring,
            ring_before=ring_before,
        )
        stripe.generate()
        return context.get_dummy_value()

    return signature, generate


class _Stripe:
    """Writes the code of `decide`."""

    def __init__(
        self, kernel: Any, builder: Any, column: Any, image: Fields, planes: Fields, scratch: Fields, counters: Fields,
        constants: Fields, plane: Any, marks: Any, ring: Any, ring_before: Any,
    ) -> None:  # fmt: skip
        self.kernel, self.builder, self.column = kernel, builder, column
        self.planes, self.scratch, self.counters = planes, scratch, counters
        self.padded, self.ring_stride = image.scalar("padded"), image.scalar("ring_stride")
        self.mark_bytes = builder.mul(image.scalar("mark_words"), INT64_TYPE(8))
        self.marks = marks
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
        vectors.store_mask(v.equals(w) & ~quiet, self._mark(CENTRE, row))
        if self.kernel.gain_bits:
            quiet = quiet & self._in_gain(row - self.up)
        vectors.store_mask(quiet, self._mark(QUIET, row))
        vectors.store_mask((v * v > t) & v.is_negative(), self._mark(BLIND, row))
        if not self.kernel.tracked:
            return
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
        return self.scratch.element(name, self._ring_index(row))

    def _ring_index(self, row: int) -> Any:
        base = self.ring if row >= 0 else self.ring_before
        start = self.builder.add(base, self.builder.mul(self.ring_stride, INT64_TYPE(row % TILE_ROWS)))
        return self.builder.add(start, self.column)

    def _in_gain(self, row: int) -> Mask:
        """Where the pixels of a row in the ring are in gain 0: its bits lie as the floats of `values` do."""
        byte = self.builder.lshr(self._ring_index(row), INT64_TYPE(3))
        return self.vectors.load_mask(self.scratch.element("in_gain", byte))

    def _plane(self, name: str, row: int) -> Any:
        """Address in a state plane; row 0 is the tile's first row of centres."""
        start = self.builder.add(self.plane, self.builder.mul(self.padded, INT64_TYPE(row)))
        return self.planes.element(name, self.builder.add(start, self.column))

    def _carried(self, name: str, row: int) -> Any:
        """Address in the sums or maxima kept from tile to tile."""
        return self.scratch.element(name, self.builder.add(self.builder.mul(self.padded, INT64_TYPE(row)), self.column))

    def _mark(self, mark: int, row: int) -> Any:
        """Address of a mark's bits for this stripe's pixels in a row of centres."""
        marks = self.builder.bitcast(self.counters.element("marks", self.marks), INT8_TYPE.as_pointer())
        byte = self.builder.add(
            self.builder.mul(self.mark_bytes, INT64_TYPE(mark * TILE_ROWS + row)),
            self.builder.lshr(self.column, INT64_TYPE(3)),
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
