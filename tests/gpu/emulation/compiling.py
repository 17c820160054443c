"""The kernels of gpu/kernels, compiled for the CPU by the C++ compiler of this machine."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import threading
from pathlib import Path

from gpu.device import DeviceError, KernelSource

HERE = Path(__file__).parent
KERNELS = Path(__file__).parents[3] / "gpu" / "kernels"
# As on the GPU: no fused multiply-adds, denormals kept.
FLAGS = ["-std=c++17", "-O2", "-fPIC", "-g1", "-ffp-contract=off", "-fno-fast-math", "-Wno-unknown-pragmas"]


def compiler() -> str | None:
    """The C++ compiler, if there is one."""
    return shutil.which("g++") or shutil.which("c++")


class CpuCompiler:
    """Compiles kernels into shared libraries, each source and its definitions once.

    Args:
        folder: Where they are kept.
        sanitizer: What watches the kernels: "address", "thread", or "" for nothing.
        kernels: Where their sources are.
    """

    def __init__(self, folder: Path, sanitizer: str = "", kernels: Path = KERNELS) -> None:
        self._folder, self._kernels = folder, kernels
        self._flags = (f"-fsanitize={sanitizer}",) if sanitizer else ()
        # ThreadSanitizer is told of fibers by the code that switches between them, and must not watch that itself.
        self._flags_of_fibers = ("-DWATCH_THREADS",) if sanitizer == "thread" else self._flags
        self._libraries: dict[KernelSource, ctypes.CDLL] = {}
        self._lock = threading.Lock()

    def library(self, source: KernelSource) -> ctypes.CDLL:
        """The library with a function `emulate_<kernel>` for each of the source's kernels."""
        with self._lock:
            if source not in self._libraries:
                self._libraries[source] = ctypes.CDLL(str(self._built(source)))
            return self._libraries[source]

    def fibers(self) -> Path:
        """What runs the threads of a block, compiled."""
        fibers = self._folder / "fibers.o"
        if not fibers.exists():
            partial = fibers.with_suffix(f".{os.getpid()}.o")
            self._run(*self._flags_of_fibers, "-c", str(HERE / "fibers.cpp"), "-o", str(partial))
            partial.replace(fibers)
        return fibers

    def _built(self, source: KernelSource) -> Path:
        fibers = self.fibers()
        name = hashlib.sha256(repr(source).encode()).hexdigest()[:16]
        text = "".join(
            [
                '#include "cuda_on_cpu.h"\n',
                *(f"#define {key} {value}\n" for key, value in source.definitions),
                f'#include "{source.file}"\n',
                *(f"EMULATE({kernel})\n" for kernel in source.kernels),
            ]
        )
        library = self._folder / f"{name}.so"
        if not library.exists():  # Several processes may share the folder.
            unit, partial = (self._folder / f"{name}.{os.getpid()}.{kind}" for kind in ("cpp", "so"))
            unit.write_text(text)
            self._run(
                *self._flags, f"-I{HERE}", f"-I{self._kernels}", "-shared", str(unit), str(fibers), "-o", str(partial)
            )
            partial.replace(library)
        return library

    def _run(self, *arguments: str) -> None:
        program = compiler()
        assert program is not None
        result = subprocess.run([program, *FLAGS, *arguments], capture_output=True, text=True)
        if result.returncode:
            raise DeviceError(f"the C++ compiler refuses {arguments[-3]}: {result.stderr}")
