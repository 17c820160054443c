"""The processor that code is compiled for: this machine's, as LLVM knows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Processor:
    """A kind of processor; code for one is not run on another.

    Attributes:
        name: LLVM's, such as ``znver3``.
        features: what it can do, as LLVM takes them: ``+avx2,-avx512f,…``.
    """

    name: str
    features: str

    def target_machine(self) -> Any:
        """What LLVM writes and loads machine code with, set up as Numba sets it up."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        relocation = "static" if target.name.startswith("x86") else "default"
        return target.create_target_machine(
            cpu=self.name, features=self.features, opt=3, reloc=relocation, codemodel="jitdefault", jit=True
        )


@cache
def host_processor() -> Processor:
    """This machine's, or the one that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name."""
    features: str = llvm.get_host_cpu_features().flatten()
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    return Processor(name, os.environ.get("NUMBA_CPU_FEATURES", features))


def host_lanes() -> int:
    """Floats in a vector on this machine: 16 with AVX-512, else 8 (two registers where a register holds four)."""
    return 16 if llvm.get_host_cpu_features().get("avx512f") else 8
