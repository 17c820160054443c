"""How compiled code is called without Numba: its arguments, laid out one after the other as Numba's own calls do.

Numba compiles a function to one with plain C arguments: where its result goes, where it says what went wrong, then each
argument in pieces. A number is one piece; a tuple is its fields'; an array is two owners (none here), its size, its
elements' size, its address, its shape and its strides; of what is a constant of the code, one piece is left that nobody
reads. `finder.code_compilation` compares this with what has been compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from ctypes import c_double, c_float, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

Pieces = Iterator[Any]


@dataclass(frozen=True)
class ArrayOf:
    """A C-contiguous array.

    Attributes:
        dtype: its type, as NumPy writes it.
        ndim: its axes.
    """

    dtype: str
    ndim: int

    @property
    def pieces(self) -> list[Any]:
        """The C types of its pieces."""
        return [c_void_p, c_void_p, c_int64, c_int64, c_void_p, *[c_int64] * (2 * self.ndim)]

    def laid_out(self, value: Any) -> Pieces:
        """The pieces of an array, which has to be of this kind."""
        fits = isinstance(value, np.ndarray) and value.dtype.str == self.dtype and value.ndim == self.ndim
        if not (fits and value.flags.c_contiguous and value.flags.aligned):
            raise TypeError(f"compiled code takes a C-contiguous array of {self.dtype} with {self.ndim} axes here")
        yield from (None, None, value.size, value.itemsize, value.__array_interface__["data"][0])
        yield from value.shape
        yield from value.strides


@dataclass(frozen=True)
class Number:
    """A number.

    Attributes:
        type: int64, float32 or float64.
    """

    type: str

    @property
    def pieces(self) -> list[Any]:
        """The C type of its piece."""
        return [{"int64": c_int64, "float32": c_float, "float64": c_double}[self.type]]

    def laid_out(self, value: Any) -> Pieces:
        """The number."""
        yield operator.index(value) if self.type == "int64" else float(value)


@dataclass(frozen=True)
class Fields:
    """A named tuple.

    Attributes:
        of: the class.
        kinds: the fields'.
    """

    of: type
    kinds: tuple[Kind, ...]

    @property
    def pieces(self) -> list[Any]:
        """The C types of its fields' pieces."""
        return [piece for kind in self.kinds for piece in kind.pieces]

    def laid_out(self, value: Any) -> Pieces:
        """The pieces of the fields."""
        for kind, field in zip(self.kinds, value, strict=True):
            yield from kind.laid_out(field)


@dataclass(frozen=True)
class Constant:
    """What the code is compiled for; of the value nothing is left at run time.

    Attributes:
        value: None, or one of a class that Numba knows.
    """

    value: Any

    @property
    def pieces(self) -> list[Any]:
        """The C type of what nobody reads."""
        return [c_void_p]

    def laid_out(self, value: Any) -> Pieces:
        """Nothing."""
        if value != self.value:
            raise TypeError(f"this code was compiled for {self.value}, not for {value}")
        yield None


Kind = ArrayOf | Number | Fields | Constant


@dataclass(frozen=True)
class CallSignature:
    """What compiled code takes.

    Attributes:
        kinds: its arguments'.
    """

    kinds: tuple[Kind, ...]

    @staticmethod
    def of(arguments: Sequence[Any]) -> CallSignature:
        """That of a call with these arguments."""
        return CallSignature(tuple(_kind(argument) for argument in arguments))

    @property
    def pieces(self) -> list[Any]:
        """The C types of all pieces."""
        return [piece for kind in self.kinds for piece in kind.pieces]

    def laid_out(self, arguments: Sequence[Any], first: int = 0) -> tuple[Any, ...]:
        """The pieces of successive arguments, the first of them the one with the index `first`.

        Raises:
            TypeError: an argument is of another kind.
        """
        kinds = self.kinds[first : first + len(arguments)]
        return tuple(piece for kind, value in zip(kinds, arguments, strict=True) for piece in kind.laid_out(value))


def _kind(argument: Any) -> Kind:
    if isinstance(argument, np.ndarray):
        return ArrayOf(argument.dtype.str, argument.ndim)
    if isinstance(argument, tuple):
        return Fields(type(argument), tuple(_kind(field) for field in argument))
    if isinstance(argument, np.float32):
        return Number("float32")
    if isinstance(argument, float):
        return Number("float64")
    if isinstance(argument, int | np.integer) and not isinstance(argument, bool):
        return Number("int64")
    return Constant(argument)
