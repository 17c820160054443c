"""The second loop of the compiled finder: sums, maxima, decision and update, as vectors.

`decide` works on a stripe, one vector wide and a tile (8 rows) high. It is the design's arithmetic on what the first
loop (kernel_subtract.py) left: the values v, and limits, which are t, or −1 where a pixel is blind (v < 0 and v·v > t).
A pixel is quiet where M·M ≤ limit and T₊·T₊ ≤ area·limit, and a centre where v == M and it is neither quiet nor v < 0:

- "T > 0 and T·T > area·t" is T₊·T₊ > area·t with T₊ = max(T, 0), because t ≥ 0.
- M need not be held at 0: where it is below, so is v, and M·M > t only where v·v > t: the pixel is blind.
- No square is ≤ −1, so a blind pixel is never quiet, and it is no centre because v < 0.

Absent pixels hold y = s1 = s2 = 0, so v = t = 0 there: they count for nothing in a window; an update leaves them 0; and
they are no centre, because v == M = 0 means that nothing around them is above 0, and then nothing passes. Of a pixel in
another gain v is 0 and the limit NaN: no comparison with it holds, so it is not quiet, and centres ask for a number.
"""

from __future__ import annotations

from typing import Any

from numba import types

from finder.kernel_fields import Fields, offset
from finder.kernel_instructions import emitted
from finder.kernel_types import CENTRE, QUIET, TILE_ROWS
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
        vectors, centre = self.vectors, row - self.up
        v = vectors.load(self._ring("values", centre))
        limit = vectors.load(self._ring("limits", centre))
        positive_sum = maximum(window_sum, self.zero)
        quiet = (window_maximum * window_maximum <= limit) & (positive_sum * positive_sum <= self.area * limit)
        no_centre = quiet | v.is_negative()
        if self.kernel.gain_bits:
            no_centre = no_centre | ~limit.equals(limit)  # NaN is not equal to itself.
        vectors.store_mask(v.equals(window_maximum) & ~no_centre, self._mark(CENTRE, row))
        vectors.store_mask(quiet, self._mark(QUIET, row))
        if self.kernel.tracked:
            self._add_where(quiet, v, self._plane("s1", row))
            if self.kernel.running:
                self._add_where(quiet, vectors.load(self._ring("steps", centre)), self._plane("s2", row))

    def _add_where(self, mask: Mask, addend: Floats, address: Any) -> None:
        # Elsewhere −0 is added, which changes nothing, not even a zero's sign. (Choosing between the sum and what is in
        # memory says the same, but LLVM makes a masked store of that, which takes some processors many steps.)
        nothing = self.vectors.constant(-0.0)
        self.vectors.store(self.vectors.load(address) + mask.choose(addend, nothing), address)

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
