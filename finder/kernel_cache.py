"""The compiled finders: one for each window, noise and tracking, compiled once and kept."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

from finder.kernel_types import Kernel
from finder.stored_code import load_or_compile

SOURCE_FILES = (
    "gain_bits.py",
    "kernel.py",
    "kernel_count.py",
    "kernel_decide.py",
    "kernel_instructions.py",
    "kernel_subtract.py",
    "kernel_types.py",
    "simd.py",
    "stored_code.py",
)

_compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
_lock = threading.Lock()
_typeof: Any = numba.typeof


def compiled(function: Callable[..., Any], what: str, kernel: Kernel, *arguments: Any) -> Callable[..., Any]:
    """A function for a kernel, ready to be called with the kernel and arguments of these types.

    Args:
        function: plain Python that Numba understands, its first argument a `Kernel`.
        what: what it is, for the log.
        kernel: what it is compiled for.
        arguments: its other arguments.
    """
    signature = tuple(_typeof(argument) for argument in (kernel, *arguments))
    with _lock:
        if signature not in _compiled:
            name = f"{function.__name__}_{kernel.name}"
            _compiled[signature] = load_or_compile(function, name, signature, what)
        return _compiled[signature]


@cache
def source_digest() -> str:
    """A digest of what the compiled code depends on, apart from the host: our source, and the compiler's version.

    Numba itself looks at the file of the outermost function only.
    """
    digest = hashlib.sha256(f"{numba.__version__} {llvm.llvm_version_info}".encode())
    for name in SOURCE_FILES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:12]
