"""Kernels from source to machine code, once for each architecture, kept on disk between processes.

CuPy's own compilation adds `-ftz=true`, which flushes denormals, and the variance of a constant pixel reaches them. So
the machine code is made here, with every operation rounded as it is written: no fused multiply-add, no flushing, exact
divisions and square roots.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from gpu.nvrtc import Compiled, nvrtc

logger = logging.getLogger(__name__)

KERNELS = Path(__file__).parent / "kernels"

EXACT = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Options that make each float32 operation the correctly rounded one of IEEE 754, as on the CPU."""

_DIGEST_BYTES = 32


def compile_kernels(
    source: Path, architecture: int, definitions: Mapping[str, int | str] | None = None, *, report: bool = False
) -> Compiled:
    """Compile a file, whether it was compiled before or not.

    Args:
        source: CUDA C++; it may include files beside it.
        architecture: Compute capability without its dot: 90 is sm_90.
        definitions: Compile-time constants by name.
        report: Whether to ask the assembler for each kernel's registers and spills.

    Raises:
        CompilerMissingError: There is no NVRTC.
        CompilationError: It refuses the source or the architecture.
    """
    options = _options(source, definitions or {})
    if report:
        options = (*options, "--ptxas-options=-v")
    return nvrtc().compile(source.read_text(), source.name, architecture, options)


class MachineCode:
    """What a process has compiled or read so far; threads may share it."""

    def __init__(self) -> None:
        self._loaded: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def cubin(self, source: Path, architecture: int, definitions: Mapping[str, int | str] | None = None) -> bytes:
        """Machine code of a file, from this process, from the disk, or compiled now.

        Processes that compile the same at the same time each keep what they made, one after the other: whoever reads
        has a whole file. Where nothing can be kept, each process compiles for itself.

        Args:
            source: CUDA C++; it may include files beside it.
            architecture: Compute capability without its dot.
            definitions: Compile-time constants by name.

        Raises:
            CompilerMissingError: There is no NVRTC; it is asked for its version even where the code is on disk.
            CompilationError: NVRTC refuses the source or the architecture.
        """
        name = _name(source, architecture, definitions or {})
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = _kept(name) or _compiled_and_kept(name, source, architecture, definitions or {})
            return self._loaded[name]


cubin = MachineCode().cubin
"""Machine code that all of this process share."""


def cache_folder() -> Path:
    """Where machine code is kept: in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "photonflow" / "kernels"


def _compiled_and_kept(name: str, source: Path, architecture: int, definitions: Mapping[str, int | str]) -> bytes:
    logger.info("compiling %s for sm_%d", source.name, architecture)
    code = compile_kernels(source, architecture, definitions).cubin
    file = cache_folder() / name
    # Workers of one machine share the folder, and threads of one process its id.
    partial = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(hashlib.sha256(code).digest() + code)
        partial.replace(file)
    except OSError as error:
        logger.info("machine code can't be kept in %s (%s): compiled for this process alone", file.parent, error)
    return code


def _kept(name: str) -> bytes | None:
    """The machine code of this name, if it is there and whole."""
    try:
        content = (cache_folder() / name).read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _name(source: Path, architecture: int, definitions: Mapping[str, int | str]) -> str:
    """A file name that other code, options, compilers or architectures don't share."""
    digest = hashlib.sha256(repr((nvrtc().version, _options(source, definitions))).encode())
    for file in sorted([*source.parent.glob("*.cu"), *source.parent.glob("*.cuh")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{source.stem}-sm_{architecture}-{digest.hexdigest()[:20]}.cubin"


def _options(source: Path, definitions: Mapping[str, int | str]) -> tuple[str, ...]:
    constants = (f"--define-macro={name}={value}" for name, value in sorted(definitions.items()))
    return (*EXACT, f"--include-path={source.parent}", *constants)
