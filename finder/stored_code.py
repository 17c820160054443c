"""Compiled code that is stored on disk, safely for many processes and hosts that share the folder.

Numba is imported when something is first compiled or loaded: it takes a third of a second, and most processes that
import the finder's parameters, pedestals and results have nothing to compile.
"""

from __future__ import annotations

import hashlib
import logging
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

# No Python is touched, so that threads run side by side; no fastmath, so that each operation is what it says.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def stored_njit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's `njit` for a small function that is only ever called with arguments of one type each.

    Its code is stored on disk where there is a place for it, and compiled in each process where there is none.
    """
    from numba import njit

    try:
        compiled: Callable[..., Any] = njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # Neither beside the source nor in the user's cache can anything be written.
        compiled = njit(**OPTIONS)(function)
    return compiled


def load_or_compile(
    function: Callable[..., Any], name: str, signature: tuple[Any, ...], description: str
) -> Callable[..., Any]:
    """`function`, compiled for arguments of the Numba types `signature`.

    The first time on a machine it is compiled, for seconds, and stored where Numba stores compiled code (beside its
    source, or in the user's cache, or in NUMBA_CACHE_DIR); after that it is loaded. Where nothing can be stored, or
    what is stored is damaged, it is compiled in each process.

    Args:
        function: plain Python that Numba understands.
        name: a name for files; other code must have another name.
        signature: the arguments' types.
        description: what is compiled, for the log.
    """
    import llvmlite.binding as llvm

    # Numba numbers the entries of a function's index without a lock, so two processes that add to one index could take
    # each other's code. A name for each signature and CPU gives each its own index, with one entry.
    features = sorted(name for name, there in llvm.get_host_cpu_features().items() if there)
    digest = hashlib.sha256(repr((signature, llvm.get_host_cpu_name(), features)).encode()).hexdigest()[:12]
    named = types.FunctionType(function.__code__, function.__globals__, f"{name}_{digest}")
    named.__qualname__ = named.__name__
    try:
        return _compile(named, signature, description, stored=True)
    except Exception as error:  # Whatever is wrong with the store: no folder, no space, a damaged file.
        logger.warning("compiled code cannot be stored or loaded (%s): compiling it for this process alone", error)
        return _compile(named, signature, description, stored=False)


def _compile(
    function: types.FunctionType, signature: tuple[Any, ...], description: str, stored: bool
) -> Callable[..., Any]:
    from numba import njit

    dispatcher: Any = njit(cache=stored, **OPTIONS)(function)
    if not (stored and any(Path(dispatcher.stats.cache_path).glob(f"*{function.__name__}*.nbc"))):
        logger.info("compiling %s", description)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    compiled: Callable[..., Any] = dispatcher
    return compiled
