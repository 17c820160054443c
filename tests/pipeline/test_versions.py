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

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
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


def named(folder, version):
    """Have a folder say that photonflow of such a version is there."""
    information = folder / f"photonflow-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: photonflow\nVersion: {version}\n")


@pytest.fixture
def start(tmp_path):
    """Start a process of Dask's, as a facility would from the shell; it meets the others at `scheduler.json`."""
    with contextlib.ExitStack() as stack:

        def start(module, *options, path, python=()):
            environment = os.environ | {"PYTHONPATH": str(path)}
            command = [sys.executable, *python, "-m", f"distributed.cli.{module}", "--no-dashboard", *options]
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(tmp_path / "scheduler.json")],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path,
                env=environment,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def scheduler(start, tmp_path):
    """The configuration of a scheduler that runs."""
    file = tmp_path / "scheduler.json"
    process = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", path="")
    while not (file.exists() and file.read_text()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            raise AssertionError("the scheduler ended")
    return ClusterConfig(kind="existing", scheduler=json.loads(file.read_text())["address"])


@pytest.fixture
def without_photonflow(tmp_path):
    """A folder with all that is installed, but photonflow."""
    folder = tmp_path / "site"
    folder.mkdir()
    for entry in Path(metadata.distribution("distributed").locate_file("")).iterdir():
        if "photonflow" not in entry.name and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.parametrize("version", [None, pytest.param("0.0.9", marks=pytest.mark.slow)])
def test_a_worker_without_this_photonflow_ends_the_run_before_it_begins(start, scheduler, without_photonflow, version):
    if version is not None:
        named(without_photonflow, version)
    # -S: the folder instead of what is installed.
    start("dask_worker", "--no-nanny", "--nthreads", "1", path=without_photonflow, python=["-S"])
    said = f"photonflow {version} and this is {metadata.version('photonflow')}" if version else "no photonflow"
    with open_cluster(scheduler) as client, pytest.raises(ClusterUnavailableError, match=said):
        require_photonflow(client)
    [workers] = [check for check in check_cluster(scheduler) if check.what == "workers"]
    assert (workers.ok, said in workers.found) == (False, True)


@pytest.mark.slow
def test_a_worker_with_another_photonflow_that_comes_later_leaves_and_the_run_goes_on(
    start, scheduler, tmp_path, make_archive
):
    archive = make_archive()
    named(tmp_path / "other", "0.0.9")
    start("dask_worker", "--no-nanny", "--nthreads", "1", path=os.environ.get("PYTHONPATH", ""))
    ended = []

    def on_progress(progress):
        if progress.batches == 3:
            path = f"{tmp_path / 'other'}:{os.environ.get('PYTHONPATH', '')}"
            ended.append(start("dask_worker", "--no-nanny", "--nthreads", "1", path=path).wait())

    with open_cluster(scheduler) as client:
        options = RunOptions(archive.path, batch_size=5)
        result = execute(prepare(options), client, on_progress=on_progress)
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
    assert ended == [1]
    assert result.skipped == ()
