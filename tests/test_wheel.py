"""The wheel: what is in it, and that it runs where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    assert built.returncode == 0, built.stderr
    return next(folder.glob("photonflow-*.whl"))


def test_packages_types_and_cluster_files_are_in_and_tests_are_out(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "finder/cpu.py",
        "gpu/compiling.py",
        "gpu/kernels/search.cu",
        "gpu/kernels/layout.cuh",
        "frame_archive/archive.py",
        "cluster_store/writer.py",
        "workflows/process.py",
        "cluster_configs/local-cpu.yaml",
        "finder/py.typed",
        "frame_archive/py.typed",
    ):
        assert wanted in names
    assert not [name for name in names if name.startswith(("tests", "docs", "io/")) or "oracle" in name]


def test_the_installed_wheel_runs_from_another_folder(wheel, tmp_path):
    site = tmp_path / "site"
    installed = run(
        sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)
    )
    assert installed.returncode == 0, installed.stderr
    environment = os.environ | {"PYTHONPATH": str(site)}
    where = run(
        sys.executable,
        "-c",
        "import finder, workflows, frame_archive; print(finder.__file__, workflows.__file__, frame_archive.__file__)",
        cwd=tmp_path,
        env=environment,
    )
    assert where.stdout.count(str(site)) == 3, where.stderr
    simulated = run(
        sys.executable,
        "-m",
        "workflows.simulate",
        "s.zarr",
        "--frames",
        "40",
        "--shape",
        "40x40",
        "--cpus",
        "1",
        cwd=tmp_path,
        env=environment,
    )
    assert simulated.returncode == 0, simulated.stderr
    processed = run(
        sys.executable, "-m", "workflows.process", "s.zarr", "--cluster", "local-cpu", cwd=tmp_path, env=environment
    )
    assert processed.returncode == 0, processed.stderr
    assert (tmp_path / "s.clusters.zarr" / "zarr.json").is_file()
