"""The emulated device: compiled once in a test session, and a new one for each test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from emulation.compiling import CpuCompiler, compiler
from emulation.device import EmulatedDevice


@pytest.fixture(scope="session")
def cpu_compiler(tmp_path_factory):
    if compiler() is None:
        pytest.skip("the kernels run on the CPU where there is a C++ compiler")
    return CpuCompiler(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def device(cpu_compiler):
    return EmulatedDevice(cpu_compiler)


@pytest.fixture
def emulation_environment():
    """Variables for a process that uses the emulated device."""
    root = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (root, root / "io", root / "tests" / "gpu")))}
