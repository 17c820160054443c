"""For all tests: Ctrl-C and a closed terminal count; and what tests report beside passing, such as inputs tried."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

# A shell that starts the tests in its background lets them, and all that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# And nohup a terminal that is closed.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Clusters that are kept for the session have nothing to do for most of it, and looked at themselves 100 times a second.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED", "False")
os.environ.setdefault("DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL", "500ms")

# Files are shared out whole and in this order: those that take long come first, so that all workers end together.
LONG_FIRST = ("docs", "workflows", "pipeline", "finder", "hostile")

INPUTS_TRIED = "inputs tried"


@pytest.fixture(scope="session")
def driver_environment(tmp_path_factory):
    """Variables for a process that is to find an NVIDIA driver, with as many cards as DRIVER_CARDS says."""
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parent / "gpu" / "driver_without_gpu.c"
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return environment | {"LD_LIBRARY_PATH": str(folder)}


@pytest.fixture
def installed_cupy(tmp_path):
    """Lets a process find an installed CuPy, by its package's name, or (None) none: it is looked for, not imported."""

    def environment(before, package):
        site = tmp_path / f"site-{package}"
        site.mkdir(exist_ok=True)
        if package is None:
            (site / "sitecustomize.py").write_text("import sys\nsys.modules['cupy'] = None\n")
        else:
            (site / "cupy").mkdir(exist_ok=True)
            (site / "cupy/__init__.py").write_text("")
            about = site / f"{package.replace('-', '_')}-14.2.0.dist-info"
            about.mkdir(exist_ok=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 14.2.0\n")
        path = [str(site), *filter(None, [before.get("PYTHONPATH")])]
        return before | {"PYTHONPATH": os.pathsep.join(path)}

    return environment


def pytest_collection_modifyitems(items):
    def place(item):
        folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
        return LONG_FIRST.index(folder) if folder in LONG_FIRST else len(LONG_FIRST)

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter):
    lines = [
        f"{report.nodeid}: {value}"
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in getattr(report, "user_properties", [])
        if name == INPUTS_TRIED
    ]
    if lines:
        terminalreporter.section("inputs tried")
        for line in sorted(lines):
            terminalreporter.line(line)
