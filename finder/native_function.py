"""Machine code that has been loaded, as a function that Python calls."""

from __future__ import annotations

from ctypes import CFUNCTYPE, byref, c_int32, c_void_p
from typing import Any

import llvmlite.binding as llvm

from finder.call_signature import CallSignature
from finder.processor import host_processor

# What the one function that is called from outside is called in all machine code of ours.
ENTRY = "photonflow_entry"

RETURNED, RETURNED_NONE = 0, -2  # Numba's.

_loaded: list[Any] = []  # The code stays in memory as long as these live.


class NativeFunction:
    """A function of machine code that returns nothing: its results go into arrays that it is given.

    While it runs, other threads of Python do.

    Args:
        code: an object file's bytes, made for this processor by `finder.code_compilation`.
        signature: what it takes.
        name: what it is called in errors.
    """

    def __init__(self, code: bytes, signature: CallSignature, name: str) -> None:
        self._signature, self._name = signature, name
        self._function = CFUNCTYPE(c_int32, c_void_p, c_void_p, *signature.pieces)(_address(code))

    def __call__(self, *arguments: Any) -> None:
        """Run it.

        Raises:
            TypeError: an argument is not of the kind that it was compiled for.
        """
        self._run(self._signature.laid_out(arguments))

    def bound(self, *first: Any) -> BoundFunction:
        """The same with its first arguments laid out once and for all."""
        return BoundFunction(self, first)

    def _run(self, pieces: tuple[Any, ...]) -> None:
        result, error = c_void_p(), c_void_p()
        status = self._function(byref(result), byref(error), *pieces)
        if status not in (RETURNED, RETURNED_NONE):
            raise RuntimeError(f"a fault in photonflow: the compiled {self._name} ended with status {status}")


class BoundFunction:
    """A native function that has its first arguments."""

    def __init__(self, function: NativeFunction, first: tuple[Any, ...]) -> None:
        self._function = function
        self._first = first  # They live as long as their addresses are used.
        self._pieces = function._signature.laid_out(first)

    def __call__(self, *rest: Any) -> None:
        """Run it with the rest of its arguments."""
        function = self._function
        function._run(self._pieces + function._signature.laid_out(rest, len(self._first)))


def _address(code: bytes) -> int:
    # A module with nothing in it, for LLVM makes its engine of one.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_processor().target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _loaded.append(engine)
    address: int = engine.get_function_address(ENTRY)
    return address
