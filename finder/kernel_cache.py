"""Compiled finders: one a window and noise, kept in memory and on disk."""

from __future__ import annotations

import hashlib
import logging
import threading
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import njit

from finder import kernel as kernel_module
from finder.kernel_types import Kernel

logger = logging.getLogger(__name__)
SOURCE_FILES = ("simd.py", "kernel_types.py", "kernel_steps.py", "kernel.py")

_compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
_lock = threading.Lock()
_typeof: Any = numba.typeof


def compiled(kernel: Kernel, *arguments: Any) -> Callable[..., Any]:
    """`find_clusters` for a kernel, ready to be called with the kernel and arguments of these types.

    The first time on a machine it is compiled, for seconds, and stored where Numba stores compiled code (the folder of
    this package, or the user's cache, or NUMBA_CACHE_DIR); then it is loaded. Where nothing can be stored or what is
    stored cannot be read, it is compiled again in each process.
    """
    signature = tuple(_typeof(argument) for argument in (kernel, *arguments))
    with _lock:
        if signature not in _compiled:
            _compiled[signature] = _compile(kernel, signature)
        return _compiled[signature]


def _compile(kernel: Kernel, signature: tuple[Any, ...]) -> Callable[..., Any]:
    # Numba numbers the entries of a function's index without a lock, so two processes that add to one index could take
    # each other's code. A name for each signature and CPU gives each its own index, with one entry.
    digest = hashlib.sha256(repr((signature, llvm.get_host_cpu_name(), sorted(_features()))).encode()).hexdigest()
    name = f"find_clusters_{kernel.name}_{digest[:12]}"
    try:
        return _attempt(kernel, signature, name, stored=True)
    except Exception as error:  # Whatever is wrong with the store: no folder, no space, a damaged file.
        logger.warning("compiled code cannot be stored or loaded (%s): compiling it for this process alone", error)
        return _attempt(kernel, signature, name, stored=False)


def _attempt(kernel: Kernel, signature: tuple[Any, ...], name: str, stored: bool) -> Callable[..., Any]:
    plain = kernel_module.find_clusters
    function = types.FunctionType(plain.__code__, plain.__globals__, name)
    function.__qualname__ = name
    dispatcher = njit(cache=stored, **kernel_module.OPTIONS)(function)
    if not (stored and any(Path(dispatcher.stats.cache_path).glob(f"*{name}*.nbc"))):
        noise = "running" if kernel.running else "trained"
        logger.info("compiling the CPU finder for %dx%d, %s noise", kernel.rows, kernel.cols, noise)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher  # type: ignore[no-any-return]


@cache
def source_digest() -> str:
    """A digest of what the compiled code depends on, apart from the host: our source, and the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvm.llvm_version_info}".encode())
    for name in SOURCE_FILES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:12]


def _features() -> list[str]:
    return [feature for feature, there in llvm.get_host_cpu_features().items() if there]
