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
    for seed in range(n):
        how = tools.damage(store, random.Random(seed))
        if "json" in how or "swap" in how or "link in" in how:  # what they change may be meant, or be the same
            store.restore()
            continue
        with warnings.catch_warnings(action="ignore"):
            try:
                found = process(store.path, tmp_path / f"{seed}.zarr", client=client, batch_size=10).load()
            except (ArchiveError, DatasetError, RunError, ValueError) as error:
                assert str(store.path) in str(error), how
                assert "\n" not in str(error)
                outcomes["refused"] += 1
            else:
                if "zarr.json" not in how:
                    assert all(found[name].equals(expected[name]) for name in VARIABLES), how
                outcomes["right"] += 1
        store.restore()
    assert outcomes["refused"] > n // 4
    record_property("inputs tried", f"{outcomes.total()} runs on damaged archives: {dict(outcomes)}")


def test_a_run_on_a_damaged_archive_is_right_or_ends_in_one_sentence(
    client, archive_store, tools, tmp_path, record_property
):
    run_damaged(10, client, archive_store, tools, tmp_path, record_property)


@pytest.mark.slow
def test_many_runs_on_damaged_archives(client, archive_store, tools, tmp_path, record_property):
    run_damaged(300, client, archive_store, tools, tmp_path, record_property)
