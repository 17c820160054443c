"""Single instructions and short copies for the compiled finder, as functions for compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from finder.kernel_fields import Fields, offset
from finder.simd import INT8_TYPE, INT32_TYPE, INT64_TYPE, Vectors

# Numba's, which have no types of their own.
_get_or_insert_function: Any = cgutils.get_or_insert_function
_raw_memcpy: Any = cgutils.raw_memcpy


def emitted(generator: Callable[..., Any]) -> Any:
    """A function for compiled code whose body a generator writes with LLVM's builder: Numba's `intrinsic`."""
    return intrinsic(generator)


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
