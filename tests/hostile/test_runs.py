"""Whole runs on damaged archives: the clusters of the undamaged one, or an error in one sentence."""

from __future__ import annotations

import random
import warnings
from collections import Counter

import pytest

from cluster_store import DatasetError
from frame_archive import ArchiveError
from pipeline import ClusterConfig, open_cluster, process
from pipeline.errors import RunError

VARIABLES = ("frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status")


@pytest.fixture(scope="module")
def client():
    with open_cluster(ClusterConfig(workers=1)) as client:
        yield client


def run_damaged(n, client, store, tools, tmp_path, record_property) -> None:
    expected = process(store.path, tmp_path / "clean.zarr", client=client, batch_size=10).load()
    outcomes: Counter[str] = Counter()
    chance = random.Random(3)
    while outcomes.total() < n:
        how = tools.damage(store, chance)
        # What the others change may be meant, or be the same.
        if how.startswith(("flip", "cut", "grow", "delete", "folder", "pipe", "link out")) and "zarr.json" not in how:
            out = tmp_path / f"{outcomes.total()}.zarr"
            outcomes[run(store, out, client, expected, how)] += 1
        store.restore()
    record_property("inputs tried", f"{outcomes.total()} runs on damaged archives: {dict(outcomes)}")


def run(store, out, client, expected, how: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):
            found = process(store.path, out, client=client, batch_size=10).load()
    except (ArchiveError, DatasetError, RunError, ValueError) as error:
        said = str(error)
    else:
        assert all(found[name].equals(expected[name]) for name in VARIABLES), how
        return "right"
    assert str(store.path) in said, how
    assert "\n" not in said
    return "refused"


def test_a_run_on_a_damaged_archive_is_right_or_ends_in_one_sentence(
    client, archive_store, tools, tmp_path, record_property
):
    run_damaged(6, client, archive_store, tools, tmp_path, record_property)


@pytest.mark.slow
def test_many_runs_on_damaged_archives(client, archive_store, tools, tmp_path, record_property):
    run_damaged(100, client, archive_store, tools, tmp_path, record_property)
