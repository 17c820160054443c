"""Who may import whom, so that the house can still be drawn on a napkin."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STORES = {"numpy", "zarr", "xarray", "numcodecs", "google_crc32c"}
MAY_IMPORT = {
    "finder": {"numpy", "numba", "llvmlite"},
    "gpu": {"finder", "numpy", "cupy", "cupy_backends"},
    # obstore is imported where an address of an object store is asked for.
    "io/object_stores": {"zarr", "obstore"},
    "io/guarded_zarr": STORES | {"object_stores"},
    "io/frame_archive": STORES | {"finder", "numba", "guarded_zarr", "object_stores"},
    "io/cluster_store": STORES | {"finder", "guarded_zarr", "object_stores", "pyarrow", "h5py"},
    # The libraries of the formats are imported where one of their files is read.
    "io/frame_formats": STORES | {"frame_archive", "guarded_zarr"},
    "roofline": {"numpy"},
    "analysis": {"finder", "numpy", "numba", "scipy", "xarray"},
    "pipeline": STORES
    | {"finder", "frame_archive", "frame_formats", "cluster_store", "guarded_zarr", "roofline", "analysis", "gpu"}
    | {"object_stores"}
    | {"dask", "distributed", "llvmlite", "numba", "psutil", "xxhash", "yaml"}
    # Imported where workers are started with one of them.
    | {"asyncssh", "dask_jobqueue", "dask_kubernetes", "kr8s"}
    # Where a scheduler serves a dashboard, and where Prometheus asks.
    | {"bokeh", "jinja2", "tornado", "prometheus_client"},
    "workflows": STORES
    | {
        "finder",
        "gpu",
        "frame_archive",
        "frame_formats",
        "cluster_store",
        "roofline",
        "analysis",
        "pipeline",
        "guarded_zarr",
        "object_stores",
        "benchmarks",
    }
    | {"click", "dask", "distributed", "matplotlib", "PIL", "pptx", "psutil", "rich", "yaml"},
}


def imported_packages(module: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            packages.add(node.module.partition(".")[0])
    return packages - set(sys.stdlib_module_names)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package):
    modules = list((ROOT / package).rglob("*.py"))
    assert modules
    allowed = MAY_IMPORT[package] | {Path(package).name}
    for module in modules:
        assert imported_packages(module) <= allowed, module


def test_every_package_of_the_wheel_is_under_this_rule():
    packages = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/py.typed")}
    packages |= {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("io/*/py.typed")}
    assert packages == set(MAY_IMPORT)


def test_relative_imports_and_print_are_not_used():
    for package in MAY_IMPORT:
        for module in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text())):
                assert not (isinstance(node, ast.ImportFrom) and node.level), module
                assert not (isinstance(node, ast.Name) and node.id == "print"), module
