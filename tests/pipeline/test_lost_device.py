"""A GPU that answers to nothing any more costs its worker, and the batch a try; not the run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from distributed import WorkerPlugin

from finder import rounded
from gpu.device import LostDeviceError
from pipeline import ClusterConfig, open_cluster, process
from pipeline.batches import worker as tasks
from pipeline.errors import BatchError

WORDS = "cudaErrorIllegalAddress: an illegal memory access was encountered"


class LosesItsDevice(WorkerPlugin):
    """Lets a batch lose the device of its worker, so many times; each leaves a mark named after the process."""

    name = "loses-its-device"

    def __init__(self, marks: Path, batch: int, times: int) -> None:
        self.marks, self.batch, self.times = marks, batch, times

    def setup(self, worker):
        self.find = find = tasks._find

        def losing(plugin, batch, start):
            if batch.index == self.batch and len(list(self.marks.iterdir())) < self.times:
                (self.marks / f"{os.getpid()}-{len(list(self.marks.iterdir()))}").touch()
                raise LostDeviceError(WORDS)
            return find(plugin, batch, start)

        tasks._find = losing

    def teardown(self, worker):
        tasks._find = self.find

    def __getstate__(self):
        return {"marks": self.marks, "batch": self.batch, "times": self.times}


@pytest.fixture(scope="module")
def two_workers():
    """A cluster whose workers end and come back."""
    with open_cluster(ClusterConfig(workers=2)) as client:
        yield client


@pytest.fixture
def losing(two_workers, marks):
    """Lets batches of the next run lose their devices."""

    def lose(batch, times):
        two_workers.wait_for_workers(2)
        two_workers.register_plugin(LosesItsDevice(marks, batch, times))
        return two_workers

    yield lose
    two_workers.wait_for_workers(2)
    two_workers.unregister_worker_plugin("loses-its-device")


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def test_a_batch_that_loses_its_device_is_done_by_another_process(make_archive, losing, marks):
    archive = make_archive()
    client = losing(batch=2, times=1)
    clusters = process(archive.path, client=client, batch_size=10)
    for name, expected in archive.reference(10).items():
        np.testing.assert_array_equal(clusters[name], rounded(expected, np.int32) if name == "signal" else expected)
    (mark,) = marks.iterdir()
    # The one that lost it has ended, and another has taken its place.
    client.wait_for_workers(2)
    assert mark.name.partition("-")[0] not in {str(pid) for pid in client.run(os.getpid).values()}


@pytest.mark.slow
def test_a_batch_that_loses_three_devices_ends_the_run_by_name_and_error(make_archive, losing, marks):
    archive = make_archive()
    with pytest.raises(BatchError, match=rf"batch 1 \(frames 10:20\) failed: {WORDS}") as error:
        process(archive.path, client=losing(batch=1, times=100), batch_size=10)
    assert "resume" in str(error.value)
    processes = [mark.name.partition("-")[0] for mark in marks.iterdir()]
    assert len(set(processes)) == len(processes) == 3
