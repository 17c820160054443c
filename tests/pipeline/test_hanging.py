"""When a task counts as hanging: from what each worker has at a moment, without a cluster."""

from __future__ import annotations

import pytest

from pipeline.workers.cluster_watch import Patience
from pipeline.workers.hanging import HangingTasks


def test_a_task_hangs_once_it_has_been_with_one_worker_for_too_long():
    tasks = HangingTasks(10, batch_bytes=0)
    assert tasks.update(0, {"w1": ["find-1"], "w2": ["find-2"]}) == []
    assert tasks.update(9, {"w1": ["find-1"], "w2": ["find-3"]}) == []
    (hanging,) = tasks.update(11, {"w1": ["find-1"], "w2": ["find-3"]})
    assert (hanging.key, hanging.worker, hanging.seconds) == ("find-1", "w1", 11)


def test_a_task_that_moved_to_another_worker_has_its_time_anew():
    tasks = HangingTasks(10, batch_bytes=0)
    tasks.update(0, {"w1": ["find-1"]})
    assert tasks.update(11, {"w2": ["find-1"]}) == []
    assert len(tasks.update(22, {"w2": ["find-1"]})) == 1


def test_the_time_follows_from_the_batches_done_where_none_was_given():
    tasks = HangingTasks(None, batch_bytes=640_000_000)
    assert tasks.seconds == 300 + 640
    for seconds in (2.0, 3.0, 100.0):
        tasks.add_duration(seconds)
    assert tasks.seconds == 300 + 20 * 3


@pytest.mark.parametrize("patience", [{"cluster_seconds": 0}, {"batch_seconds": -1}, {"cluster_seconds": float("nan")}])
def test_patience_is_a_time(patience):
    with pytest.raises(ValueError, match="number of seconds above 0"):
        Patience(**patience)
