"""Functions that are compiled once a machine, and by later processes loaded without Numba.

Numba's own store spares a process the compiling, but not Numba: importing it and having it find its types takes more
than a second, longer than all else that a worker does before its first frame. So what the finder needs in each process
is kept as object files, which LLVM loads within milliseconds, and called with plain C arguments
(`finder.call_signature`). LLVM too is imported only when there is something to load.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finder.call_signature import CallSignature
from finder.code_store import CodeStore
from finder.compiling_notices import tell

if TYPE_CHECKING:
    from finder.native_function import NativeFunction

# Whatever turns Python into object files, and calls what is in them.
COMPILER = ("call_signature.py", "code_compilation.py", "native_function.py", "processor.py", "stored_code.py")

_compiled: dict[tuple[str, CallSignature], NativeFunction] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Code:
    """A function to be compiled.

    Attributes:
        name: a name for files; code for something else must have another name.
        function: gives the function, plain Python that Numba understands; called only to compile it, so that it may
            import Numba. The function returns nothing and makes no array.
        sources: the modules' files, in this folder, that its compiled code depends on.
        description: what it is, for people.
        seconds: about how long compiling takes.
    """

    name: str
    function: Callable[[], Callable[..., Any]]
    sources: tuple[str, ...]
    description: str
    seconds: int


def compiled(code: Code, *arguments: Any) -> NativeFunction:
    """`code` for arguments like these: arrays of their types and axes, numbers, named tuples of these, constants.

    The first time on a machine it is compiled, which is told (`finder.compiling_notices`), and kept: in NUMBA_CACHE_DIR
    if that is set, else beside the source or, where that is read-only, in the user's cache, else among the temporary
    files. Of several processes that want it at once, one compiles and the others wait. Each kind of processor has its
    own. Where nothing can be kept, or what was kept is damaged, it is compiled again.
    """
    signature = CallSignature.of(arguments)
    with _lock:
        if (code.name, signature) not in _compiled:
            from finder.native_function import NativeFunction

            _compiled[code.name, signature] = NativeFunction(_stored(code, signature), signature, code.name)
        return _compiled[code.name, signature]


def name_in_store(code: Code, signature: CallSignature) -> str:
    """The name under which `code` is kept for calls like this one, on processors like this one."""
    from finder.processor import host_processor

    made_of = (code.name, signature, host_processor(), _compiler(), _digest(code.sources))
    return f"{code.name}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}"


def _stored(code: Code, signature: CallSignature) -> bytes:
    store, name = CodeStore(), name_in_store(code, signature)
    stored = store.read(name)
    if stored is not None:
        return stored
    about = f"{code.description} (once on this machine, about {code.seconds} s)"
    with store.alone(name, lambda: tell(f"another process is compiling {about}", code.seconds)):
        stored = store.read(name)
        if stored is None:
            tell(f"compiling {about}", code.seconds)
            from finder.code_compilation import object_code

            stored = object_code(code.function(), signature)
            store.write(name, stored)
    return stored


@cache
def _compiler() -> tuple[str, ...]:
    return *map(importlib.metadata.version, ("numba", "llvmlite")), _digest(COMPILER)


@cache
def _digest(sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()
