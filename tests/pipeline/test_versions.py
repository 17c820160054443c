"""Workers of somebody else's that lack photonflow, or hold another version of it or of what it needs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pipeline import ClusterConfig, ClusterUnavailableError, open_cluster
from pipeline.workers.cluster_check import check_cluster
from pipeline.workers.versions import differences, require_photonflow


def packages(python="3.11.7.final.0", **changed):
    return {"packages": {"python": python, "dask": "2026.3", "numpy": "2.0", "zarr": "3.1"} | changed}


def test_what_differs_is_named_with_both_versions_and_where():
    versions = {
        "client": packages(),
        "scheduler": packages(dask="2026.4", zarr=None),
        "workers": {"tcp://a:1": packages(numpy="2.1"), "tcp://b:1": packages("3.12.0.final.0", numpy="2.1")},
    }
    dask, numpy, python = differences(versions)
    assert dask.startswith("the scheduler has dask 2026.4 and this is 2026.3")
    assert numpy.startswith("the worker at tcp://a:1, the worker at tcp://b:1 have numpy 2.1 and this is 2.0")
    assert python.startswith("the worker at tcp://b:1 has python 3.12 and this is 3.11")


def test_a_release_of_python_that_changes_nothing_that_travels_is_not_named():
    versions = {"client": packages(), "scheduler": None, "workers": {"tcp://a:1": packages("3.11.9.final.0")}}
    assert differences(versions) == []


@pytest.fixture
def without_photonflow(tmp_path):
    """A folder with all that is installed, but photonflow."""
    folder = tmp_path / "site"
    folder.mkdir()
    for entry in Path(metadata.distribution("distributed").locate_file("")).iterdir():
        if "photonflow" not in entry.name and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.parametrize("version", [None, "0.0.9"])
def test_a_worker_without_this_photonflow_ends_the_run_before_it_begins(tmp_path, without_photonflow, version):
    """Started from the shell, as a facility would."""
    if version is not None:
        information = without_photonflow / f"photonflow-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: photonflow\nVersion: {version}\n")
    file = tmp_path / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": str(without_photonflow)}
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path, "env": environment}
    with contextlib.ExitStack() as stack:
        for arguments in (
            ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            ("distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"),
        ):
            # -S: the folder instead of what is installed.
            command = [sys.executable, "-S", "-m", *arguments, "--scheduler-file", str(file)]
            process = subprocess.Popen(command, **options)
            stack.callback(process.wait)
            stack.callback(process.kill)
            while not (file.exists() and file.read_text()):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.05)
                    raise AssertionError("the scheduler ended")
        config = ClusterConfig(kind="existing", scheduler=json.loads(file.read_text())["address"])
        said = (
            "no photonflow" if version is None else f"photonflow {version} and this is {metadata.version('photonflow')}"
        )
        with open_cluster(config) as client, pytest.raises(ClusterUnavailableError, match=said):
            require_photonflow(client)
        [workers] = [check for check in check_cluster(config) if check.what == "workers"]
        assert (workers.ok, said in workers.found) == (False, True)
