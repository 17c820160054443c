"""An archive that somebody writes to while a run reads it."""

from __future__ import annotations

import os
import signal

import pytest
import zarr

from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.errors import ChangedResultError


def test_a_batch_that_is_found_again_in_other_frames_ends_the_run_and_never_the_dataset(make_archive):
    archive = make_archive()
    with open_cluster(ClusterConfig(workers=1)) as client:
        (pid,) = client.run(os.getpid).values()

        def change_and_kill(progress):
            if progress.batches == 5:
                # All clusters fit into one chunk, so none is written yet, and all are lost with their worker.
                zarr.open_array(f"{archive.path}/frames", mode="r+")[:5] = archive.frames[5:10]
                os.kill(pid, signal.SIGKILL)

        changed = r"batch 0 \(frames 0:5\) was found again with another result than before"
        with pytest.raises(ChangedResultError, match=changed):
            execute(prepare(RunOptions(archive.path, batch_size=5)), client, on_progress=change_and_kill)
