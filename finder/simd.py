"""Vectors of float32 inside compiled loops.

Numba compiles scalar loops and leaves it to LLVM to find vectors in them, which works or not with small changes of
the source. The CPU finder states its vectors instead: a Numba `intrinsic` receives LLVM's builder, and writes the inner
loop's body with the values below, in ordinary Python. `a + b` here emits one instruction that adds all lanes of two
vectors. Nothing is tied to one kind of CPU: LLVM turns a vector into whatever registers the host has.

Every operation is one correctly rounded IEEE operation a lane: no flag here lets LLVM fuse, reorder or approximate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

FLOAT_TYPE = ir.FloatType()
INT8_TYPE, INT32_TYPE, INT64_TYPE = ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True)
class Floats:
    """A vector of float32."""

    builder: Any
    value: Any

    def __add__(self, other: Floats) -> Floats:
        return Floats(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: Floats) -> Floats:
        return Floats(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: Floats) -> Floats:
        return Floats(self.builder, self.builder.fmul(self.value, other.value))

    def __neg__(self) -> Floats:
        return Floats(self.builder, self.builder.fneg(self.value))

    def __le__(self, other: Floats) -> Mask:
        return self._compared("<=", other)

    def __gt__(self, other: Floats) -> Mask:
        return self._compared(">", other)

    def equals(self, other: Floats) -> Mask:
        """Where both have the same value."""
        return self._compared("==", other)

    def is_negative(self) -> Mask:
        """Where the sign is set, also that of −0: one instruction less than a comparison."""
        bits = self.bits()
        return Mask(self.builder, self.builder.icmp_signed("<", bits, ir.Constant(bits.type, None)))

    def bits(self) -> Any:
        """The same bits as LLVM's vector of int32."""
        return self.builder.bitcast(self.value, ir.VectorType(INT32_TYPE, self.value.type.count))

    def _compared(self, operator: str, other: Floats) -> Mask:
        return Mask(self.builder, self.builder.fcmp_ordered(operator, self.value, other.value))


@dataclass(frozen=True)
class Mask:
    """A vector of yes or no."""

    builder: Any
    value: Any

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.builder, self.builder.or_(self.value, other.value))

    def __invert__(self) -> Mask:
        return Mask(self.builder, self.builder.not_(self.value))

    def choose(self, yes: Floats, no: Floats) -> Floats:
        """`yes` where the mask is set, else `no`."""
        return Floats(self.builder, self.builder.select(self.value, yes.value, no.value))


def maximum(a: Floats, b: Floats) -> Floats:
    """The greater of each lane."""
    return (a > b).choose(a, b)


def maximum_of(vectors: Sequence[Floats]) -> Floats:
    """The greatest of each lane, pairs first, so that the steps do not wait for each other."""
    while len(vectors) > 1:
        pairs = [maximum(a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=False)]
        vectors = pairs + list(vectors[2 * len(pairs) :])
    return vectors[0]


def sum_in_order(vectors: Sequence[Floats]) -> Floats:
    """((a + b) + c) + …: the order is part of the result."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total + vector
    return total


@dataclass(frozen=True)
class Vectors:
    """Makes vectors of `lanes` float32: from scalars and from memory. Addresses are LLVM pointers."""

    builder: Any
    lanes: int

    def zero(self) -> Floats:
        """0 in every lane."""
        return self.constant(0.0)

    def constant(self, value: float) -> Floats:
        """The same number in every lane."""
        return Floats(self.builder, ir.Constant(self._of(FLOAT_TYPE), [value] * self.lanes))

    def splat(self, scalar: Any) -> Floats:
        """A float32 scalar in every lane."""
        undefined = ir.Constant(self._of(FLOAT_TYPE), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, INT32_TYPE(0))
        lanes = ir.Constant(self._of(INT32_TYPE), [0] * self.lanes)
        return Floats(self.builder, self.builder.shuffle_vector(first, undefined, lanes))

    def load(self, address: Any) -> Floats:
        """Floats that lie one behind the other."""
        return Floats(self.builder, self._load(address, FLOAT_TYPE, align=4))

    def store(self, floats: Floats, address: Any) -> None:
        """Floats, one behind the other."""
        self.builder.store(floats.value, self._pointer(address, FLOAT_TYPE), align=4)

    def load_mask(self, address: Any) -> Mask:
        """A mask from bits: the lowest bit of the first byte is lane 0."""
        bits = ir.IntType(self.lanes)
        word = self.builder.load(self.builder.bitcast(address, bits.as_pointer()), align=1)
        return Mask(self.builder, self.builder.bitcast(word, ir.VectorType(ir.IntType(1), self.lanes)))

    def store_mask(self, mask: Mask, address: Any) -> None:
        """A mask as bits: lane 0 is the lowest bit of the first byte."""
        bits = ir.IntType(self.lanes)
        word = self.builder.bitcast(mask.value, bits)
        self.builder.store(word, self.builder.bitcast(address, bits.as_pointer()), align=1)

    def below(self, address: Any, width: int, limit: int) -> Mask:
        """Where integers of so many bits, taken as unsigned, are below a limit that is one of them."""
        values = self._load(address, ir.IntType(width), align=1)
        limits = ir.Constant(self._of(ir.IntType(width)), [limit] * self.lanes)
        return Mask(self.builder, self.builder.icmp_unsigned("<", values, limits))

    def count(self, mask: Mask, address: Any) -> None:
        """Add 1 to each int32 in memory where the mask is set."""
        counts = self._load(address, INT32_TYPE, align=4)
        ones = self.builder.zext(mask.value, self._of(INT32_TYPE))
        self.builder.store(self.builder.add(counts, ones), self._pointer(address, INT32_TYPE), align=4)

    def no_bits(self) -> Any:
        """0 as LLVM's vector of int32."""
        return ir.Constant(self._of(INT32_TYPE), None)

    def any_sign(self, bits: Any) -> Any:
        """Whether the sign of any lane is set, as LLVM's i1."""
        negative = self.builder.icmp_signed("<", bits, self.no_bits())
        word = self.builder.bitcast(negative, ir.IntType(self.lanes))
        return self.builder.icmp_unsigned("!=", word, word.type(0))

    def everywhere(self) -> Mask:
        """Yes in every lane."""
        return Mask(self.builder, ir.Constant(self._of(ir.IntType(1)), [1] * self.lanes))

    def small_difference(self, address: Any, width: int, signed: bool, subtrahend: Any) -> Floats:
        """float32(a − b), a and b integers of 8 or 16 bits."""
        extend = self.builder.sext if signed else self.builder.zext
        a, b = (
            extend(self._load(place, ir.IntType(width), align=1), self._of(INT32_TYPE))
            for place in (address, subtrahend)
        )
        difference = self.builder.sub(a, b)
        return Floats(self.builder, self.builder.sitofp(difference, self._of(FLOAT_TYPE)))

    def large_difference(self, address: Any, signed: bool, subtrahend: Any) -> Floats:
        """float32(a − b), a and b both int32 or both uint32, rounded once.

        The difference needs 33 bits: its magnitude fits uint32, and the sign is put on afterwards.
        """
        builder = self.builder
        a, b = (self._load(place, INT32_TYPE, align=1) for place in (address, subtrahend))
        below = builder.icmp_signed("<", a, b) if signed else builder.icmp_unsigned("<", a, b)
        magnitude = builder.uitofp(builder.select(below, builder.sub(b, a), builder.sub(a, b)), self._of(FLOAT_TYPE))
        return Floats(builder, builder.select(below, builder.fneg(magnitude), magnitude))

    def _of(self, element: Any) -> Any:
        return ir.VectorType(element, self.lanes)

    def _pointer(self, address: Any, element: Any) -> Any:
        return self.builder.bitcast(address, self._of(element).as_pointer())

    def _load(self, address: Any, element: Any, align: int) -> Any:
        return self.builder.load(self._pointer(address, element), align=align)
