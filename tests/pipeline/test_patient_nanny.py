"""Workers that are killed before they are up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psutil
import pytest

from pipeline import ClusterConfig, open_cluster
from pipeline.errors import ClusterUnavailableError


@contextlib.contextmanager
def kills_of_starting_workers(number: int) -> Iterator[set[int]]:
    """Kill the next workers that this process starts, each at once."""
    seen, killed = {child.pid for child in psutil.Process().children()}, set()
    done = threading.Event()

    def kill() -> None:
        while len(killed) < number and not done.is_set():
            for child in psutil.Process().children():
                with contextlib.suppress(psutil.Error):
                    # A worker, and not the process that tracks resources.
                    if child.pid not in seen and "spawn_main" in " ".join(child.cmdline()):
                        child.kill()
                        killed.add(child.pid)
                        seen.add(child.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        done.set()
        killer.join()


def test_a_worker_that_is_killed_before_it_is_up_is_started_anew():
    with kills_of_starting_workers(2) as killed, open_cluster(ClusterConfig(workers=1)) as client:
        assert client.submit(pow, 2, 3).result() == 8
        assert len(killed) == 2


def test_workers_that_are_killed_over_and_over_end_in_one_sentence():
    with (
        kills_of_starting_workers(1000) as killed,
        pytest.raises(ClusterUnavailableError, match="1 worker could not be started"),
        open_cluster(ClusterConfig(workers=1)),
    ):
        pytest.fail("no worker can be there")
    assert len(killed) == 3
