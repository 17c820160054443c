"""Workers killed again and again at seeded random moments of one run."""

from __future__ import annotations

import random

import psutil
import pytest
import xarray as xr

from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.workers.cluster_watch import Patience

KILLS = 20


class Killer:
    """Kills a worker of this process at seeded random batches; what is due while none is alive is made up for later."""

    def __init__(self, seed: int, n_batches: int) -> None:
        self._random = random.Random(seed)
        # Not in the last batches: those find no more worker to kill.
        self._moments = set(self._random.sample(range(2, n_batches // 2), KILLS))
        self._due = 0
        self.killed: set[int] = set()

    def __call__(self, progress) -> None:
        self._due += progress.batches in self._moments
        alive = [child for child in psutil.Process().children() if is_worker(child) and child.pid not in self.killed]
        if self._due and alive:
            victim = self._random.choice(alive)
            victim.kill()
            self.killed.add(victim.pid)
            self._due -= 1


def is_worker(child):
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:
        return False


@pytest.mark.slow
def test_twenty_workers_killed_in_one_run_lose_no_cluster(make_archive):
    archive = make_archive(n_frames=300)
    prepared = prepare(RunOptions(archive.path, batch_size=2, overwrite=True))
    with open_cluster(ClusterConfig(workers=2)) as client:
        undisturbed = execute(prepared, client)
        expected = xr.open_zarr(undisturbed.out).load()
        killer = Killer(seed=5, n_batches=150)
        result = execute(prepared, client, on_progress=killer, patience=Patience(cluster_seconds=300))
    assert len(killer.killed) >= KILLS
    found = xr.open_zarr(result.out).load()
    for name in expected.variables:
        assert expected[name].equals(found[name]), name
    assert result.digest == undisturbed.digest
