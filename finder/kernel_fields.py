"""The compiled finder's arguments as Numba and LLVM see them. Imported only where the finder is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import overload_attribute, register_model, typeof_impl

from finder.kernel_types import Kernel


class KernelType(types.Type):
    """`Kernel` as a Numba type: its fields are part of the type, so that each value is compiled for itself."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        super().__init__(name=f"Kernel({kernel.name})")


@register_model(KernelType)
class _KernelModel(models.OpaqueModel):
    """Nothing of it is left at run time."""


@typeof_impl.register(Kernel)
def _typeof_kernel(value: Kernel, context: Any) -> KernelType:
    return KernelType(value)


def _constant(field: str) -> None:
    """Make `kernel.field` a constant in compiled code."""

    def attribute(kernel):  # type: ignore[no-untyped-def] # Numba compares the two signatures, annotations included.
        value = getattr(kernel.kernel, field)
        return lambda kernel: value

    overload_attribute(KernelType, field, inline="always")(attribute)


for _field in ("rows", "cols", "running", "tracked", "lanes", "prefetching", "branchless"):
    _constant(_field)


class Fields:
    """The arrays of a named tuple in an intrinsic: LLVM pointers to their elements, by name."""

    def __init__(self, context: Any, builder: Any, typ: Any, value: Any) -> None:
        self._context, self._builder, self._type, self._value = context, builder, typ, value

    def scalar(self, name: str) -> Any:
        """A field that is a number."""
        return self._builder.extract_value(self._value, self._type.fields.index(name))

    def element(self, name: str, index: Any) -> Any:
        """The address of an element of a field that is a flat array."""
        array_type = self._type.types[self._type.fields.index(name)]
        array = self._context.make_array(array_type)(self._context, self._builder, self.scalar(name))
        return self._builder.gep(array.data, [index])


def offset(builder: Any, address: Any, elements: int) -> Any:
    """The address `elements` further on."""
    return builder.gep(address, [ir.Constant(cgutils.intp_t, elements)])
