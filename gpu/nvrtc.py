"""NVIDIA's run-time compiler (NVRTC), called by its C interface: it needs no GPU, no driver and no CuPy."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OLDEST = (12, 8)
"""The first version that knows sm_100 and sm_120."""

# CUDA 12 goes first: what it compiles runs under drivers for 12 and 13, and it still knows sm_70.
_MAJORS = (12, 13)
_WHEELS = {12: "cuda_nvrtc/lib/libnvrtc.so.12", 13: "cu13/lib/libnvrtc.so.13"}
_OUT_OF_RANGE_ARCHITECTURE = re.compile(r"invalid value for --gpu-architecture|unsupported gpu architecture")


class CompilerMissingError(RuntimeError):
    """There is no NVRTC that is new enough."""


class CompilationError(RuntimeError):
    """NVRTC refused a kernel, or the architecture that it was to be compiled for."""


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes of a multiprocessor, as the assembler reports it.

    Args:
        kernel: Its name in the machine code.
        registers: Registers a thread.
        spill_bytes: Bytes a thread that did not fit into registers: stores and loads together.
        stack_bytes: Bytes of local memory a thread.
    """

    kernel: str
    registers: int
    spill_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Compiled:
    """Machine code.

    Args:
        cubin: For one architecture, as the driver loads it.
        log: What the compiler said.
        resources: Of each kernel; empty unless `--ptxas-options=-v` was given.
    """

    cubin: bytes
    log: str
    resources: tuple[KernelResources, ...]


class Nvrtc:
    """One NVRTC library.

    Args:
        library: Path or name of the shared library.

    Raises:
        OSError: It can't be loaded.
    """

    def __init__(self, library: str) -> None:
        self._library: Any = ctypes.CDLL(library)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def compile(self, source: str, name: str, architecture: int, options: Sequence[str]) -> Compiled:
        """Machine code for an architecture.

        Args:
            source: CUDA C++.
            name: What to call it in messages.
            architecture: Compute capability without its dot: 90 is sm_90.
            options: Of the compiler, beside the architecture.

        Raises:
            CompilationError: The source is wrong, or this NVRTC does not know the architecture.
        """
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None), name
        )
        try:
            given = [f"--gpu-architecture=sm_{architecture}", *options]
            arguments = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
            code = self._library.nvrtcCompileProgram(program, len(given), arguments)
            log = self._text(program, "ProgramLog")
            if code:
                raise CompilationError(self._reason(name, architecture, log))
            cubin = self._bytes(program, "CUBIN")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
        return Compiled(cubin, log, tuple(_resources(log)))

    def _reason(self, name: str, architecture: int, log: str) -> str:
        version = ".".join(map(str, self.version))
        if _OUT_OF_RANGE_ARCHITECTURE.search(log):
            return (
                f"the CUDA compiler (NVRTC {version}) knows no GPU of compute capability {architecture / 10:.1f}: "
                "install CUDA 12 (photonflow[cuda12]) for GPUs before 7.5, and the newest CUDA for new ones"
            )
        return f"{name} can't be compiled for sm_{architecture} by NVRTC {version}: {log.strip()}"

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
        content = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, content), what)
        return content.raw

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace")

    def _check(self, code: int, what: str) -> None:
        if code:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise CompilationError(f"{what}: {self._library.nvrtcGetErrorString(code).decode()}")


@cache
def nvrtc() -> Nvrtc:
    """The NVRTC of an installed wheel, or of the system.

    Raises:
        CompilerMissingError: There is none, or only an old one.
    """
    too_old = ""
    for candidate in _candidates():
        try:
            found = Nvrtc(candidate)
        except OSError:
            continue
        if found.version >= OLDEST:
            return found
        too_old = f", only {'.'.join(map(str, found.version))}"
    raise CompilerMissingError(
        f"there is no CUDA compiler (NVRTC {'.'.join(map(str, OLDEST))} or later{too_old}): "
        "pip install 'photonflow[cuda12]'"
    )


def _candidates() -> Iterator[str]:
    spec = find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    for major in _MAJORS:
        for root in roots:
            if (library := Path(root) / _WHEELS[major]).exists():
                yield str(library)
        yield f"libnvrtc.so.{major}"


def _resources(log: str) -> Iterator[KernelResources]:
    """The kernels of an assembler's report, which has three lines for each."""
    for part in log.split("Compiling entry function '")[1:]:
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if stack is None or registers is None:
            continue
        yield KernelResources(part.partition("'")[0], int(registers[1]), int(stack[2]) + int(stack[3]), int(stack[1]))
