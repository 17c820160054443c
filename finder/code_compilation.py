"""Python functions made into object files by Numba and LLVM. Imported to compile."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_double, c_float, c_int64, c_void_p
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import from_dtype, njit, typeof, types
from numpy import dtype

from finder.call_signature import ArrayOf, CallSignature, Fields, Kind, Number
from finder.native_function import ENTRY
from finder.processor import host_processor
from finder.stored_code import OPTIONS

# Nothing is compiled for calls from Python; nothing counts references to arrays, which would take Numba at run time.
NATIVE: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "_nrt": False}

# What machine code may call: LLVM's own calls for copying and filling memory, which every process has.
KNOWN = {"memcpy", "memmove", "memset"}
_POINTER = "a pointer"
_LLVM_TYPES = {c_void_p: _POINTER, c_int64: "i64", c_float: "float", c_double: "double"}

_tuple_of: Any = types.BaseTuple.from_types


def part(function: Callable[..., Any]) -> Any:
    """A function that only compiled code calls."""
    return njit(**NATIVE)(function)


def object_code(function: Callable[..., Any], signature: CallSignature) -> bytes:
    """An object file with `function` as `ENTRY`, for this processor.

    Args:
        function: plain Python that Numba understands, which returns nothing and makes no array.
        signature: what it is to take.

    Raises:
        RuntimeError: it could not be called without Numba.
    """
    text, name = optimized(function, signature)
    module = llvm.parse_assembly(text)
    entry = module.get_function(name)
    _require_plain(module, entry, signature)
    entry.name = ENTRY
    code: bytes = host_processor().target_machine().emit_object(module)
    return code


def optimized(function: Callable[..., Any], signature: CallSignature) -> tuple[str, str]:
    """`function` in LLVM's language, optimized, and its name there."""
    dispatcher: Any = njit(**NATIVE)(function)
    arguments = tuple(_numba_type(kind) for kind in signature.kinds)
    dispatcher.compile(arguments)
    result = dispatcher.overloads[arguments]
    return result.library.get_llvm_str(), result.fndesc.llvm_func_name


def _numba_type(kind: Kind) -> Any:
    if isinstance(kind, ArrayOf):
        return types.Array(from_dtype(dtype(kind.dtype)), kind.ndim, "C")
    if isinstance(kind, Number):
        return getattr(types, kind.type)
    if isinstance(kind, Fields):
        return _tuple_of(tuple(_numba_type(field) for field in kind.kinds), kind.of)
    return typeof(kind.value)


def _require_plain(module: Any, entry: Any, signature: CallSignature) -> None:
    """Make sure that the code calls nothing that a process may lack, and is called as `finder.call_signature` says."""
    unknown = {
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    } - KNOWN
    if unknown:
        raise RuntimeError(f"a fault in photonflow: compiled code calls {', '.join(sorted(unknown))}")
    expected = [_POINTER, _POINTER, *(_LLVM_TYPES[piece] for piece in signature.pieces)]
    found = [str(argument.type) for argument in entry.arguments]
    # Older versions of LLVM write what pointers point to.
    if [_POINTER if text == "ptr" or text.endswith("*") else text for text in found] != expected:
        raise RuntimeError(f"a fault in photonflow: Numba {numba.__version__} calls compiled code in a way of its own")
