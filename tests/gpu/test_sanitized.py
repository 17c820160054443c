"""The kernels under AddressSanitizer and ThreadSanitizer: no byte out of bounds, no race between threads of a block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from emulation.compiling import compiler

pytestmark = pytest.mark.slow
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


def sanitized(emulation_environment, folder, sanitizer, what):
    """Run kernels under a sanitizer; the finished process."""
    program = compiler()
    if program is None:
        pytest.skip("the kernels run on the CPU where there is a C++ compiler")
    asked = [program, f"-print-file-name={LIBRARIES[sanitizer]}"]
    library = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not library.is_absolute():
        pytest.skip(f"the C++ compiler has no {library}")
    environment = emulation_environment | {
        "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    command = [sys.executable, "-m", "emulation.sanitized", str(folder), sanitizer, what]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)


@pytest.mark.parametrize("sanitizer", LIBRARIES)
def test_the_kernels_of_the_finder_are_clean(emulation_environment, tmp_path, sanitizer):
    result = sanitized(emulation_environment, tmp_path, sanitizer, "finder")
    assert result.returncode == 0, result.stderr


def test_a_right_kernel_is_clean(emulation_environment, tmp_path):
    result = sanitized(emulation_environment, tmp_path, "thread", "reversed")
    assert result.returncode == 0, result.stderr


def test_a_race_between_threads_is_seen(emulation_environment, tmp_path):
    result = sanitized(emulation_environment, tmp_path, "thread", "reversed_without_a_barrier")
    assert result.returncode != 0
    assert "data race" in result.stderr
