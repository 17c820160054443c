"""Archives and datasets damaged at random: a clean error or the right answer, never a traceback, a hang or a crash."""

from __future__ import annotations

import random
import warnings
from collections import Counter

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cluster_store import DatasetError, open_clusters, read_pedestal
from frame_archive import ArchiveError, FrameArchive

N_ARCHIVES, N_DATASETS = 500, 400
ARRAYS = ("frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status", "cluster_y", "cluster_x")


def bounded(n: int):
    return settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def read_archive(path) -> dict[str, np.ndarray]:
    archive = FrameArchive.open(path)
    frames = np.empty((archive.n_frames, *archive.frame_shape), archive.dtype)
    archive.read(0, archive.n_frames, frames)
    return {
        "frames": frames,
        "dark": archive.read_dark(0, archive.n_dark) if archive.dark is not None else None,
        "pixel_mask": archive.pixel_mask,
        "frame_number": archive.frame_numbers(0, archive.n_frames),
    }


def require_named(store, error: Exception) -> None:
    said = str(error.filename) if isinstance(error, OSError) else str(error)
    assert str(store.path) in said


def as_zarr_reads_it(path, name):
    """The oracle where metadata was changed: what the store now says, read by zarr alone."""
    try:
        return zarr.open_array(path / name, mode="r", zarr_format=3)[...]
    except (FileNotFoundError, KeyError):
        return None


def use_archive(store, tools, how: list[str]) -> str:
    metadata_changed = any("zarr.json" in step or "swap" in step or "link in" in step for step in how)
    try:
        found = read_archive(store.path)
    except ArchiveError as error:
        require_named(store, error)
        return "refused"
    for name, values in found.items():
        expected = as_zarr_reads_it(store.path, name) if metadata_changed else getattr(tools.arrays, name)
        if expected is None:
            assert values is None or name == "frame_number"
        else:
            np.testing.assert_array_equal(values, expected)
    return "read"


def use_dataset(store, original, how: list[str]) -> str:
    try:
        clusters = open_clusters(store.path).load()
        pedestal = read_pedestal(store.path)
    except (DatasetError, OSError) as error:
        require_named(store, error)
        return "refused"
    if not any("swap" in step or "link in" in step for step in how):
        for name in ARRAYS:
            np.testing.assert_array_equal(clusters[name].values, original[0][name].values)
        np.testing.assert_array_equal(pedestal.s2, original[1].s2)
    return "read"


def use_other(store) -> str:
    """An archive of another layout, without checksums: what is damaged may go unnoticed, but never ends badly."""
    try:
        read_archive(store.path)
    except ArchiveError as error:
        require_named(store, error)
        return "refused"
    return "read"


def fuzz(n, stores, tools, record_property, what, use, dry_runs=0.0) -> Counter:
    """Damage one of the stores n times, use it and inspect it, and dry-run a share of them."""
    outcomes: Counter[str] = Counter()

    @bounded(n)
    @given(st.integers(0, 2**64))
    def one(seed):
        chance = random.Random(seed)
        store = chance.choice(stores)
        try:
            how = [tools.damage(store, chance) for _ in range(chance.choice([1, 1, 1, 2]))]
            with warnings.catch_warnings(action="ignore"):
                outcomes[use(store, how)] += 1
            tools.photonflow("inspect", store.path).require_clean()
            if chance.random() < dry_runs:
                tools.photonflow("process", store.path, "--dry-run").require_clean()
        finally:
            store.restore()

    one()
    record_property("inputs tried", f"{outcomes.total()} damaged {what}: {dict(outcomes)}")
    return outcomes


def fuzz_archives(n, store, tools, record_property) -> Counter:
    def use(store, how):
        return use_archive(store, tools, how)

    return fuzz(n, [store], tools, record_property, "archives", use, dry_runs=0.25)


def fuzz_others(n, stores, tools, record_property) -> Counter:
    return fuzz(n, stores, tools, record_property, "archives of other layouts", lambda store, how: use_other(store))


def fuzz_datasets(n, store, tools, record_property) -> Counter:
    original = open_clusters(store.path).load(), read_pedestal(store.path)
    return fuzz(n, [store], tools, record_property, "datasets", lambda store, how: use_dataset(store, original, how))


def test_a_damaged_archive_is_read_right_or_refused_in_one_sentence(archive_store, tools, record_property):
    outcomes = fuzz_archives(50, archive_store, tools, record_property)
    assert min(outcomes["read"], outcomes["refused"]) > 0


def test_a_damaged_dataset_is_read_right_or_refused_in_one_sentence(dataset_store, tools, record_property):
    outcomes = fuzz_datasets(30, dataset_store, tools, record_property)
    assert min(outcomes["read"], outcomes["refused"]) > 0


def test_a_damaged_archive_of_another_layout_is_read_or_refused_in_one_sentence(other_stores, tools, record_property):
    outcomes = fuzz_others(30, other_stores, tools, record_property)
    assert min(outcomes["read"], outcomes["refused"]) > 0


@pytest.mark.slow
def test_many_damaged_archives_of_other_layouts(other_stores, tools, record_property):
    fuzz_others(N_ARCHIVES, other_stores, tools, record_property)


@pytest.mark.slow
def test_many_damaged_archives(archive_store, tools, record_property):
    fuzz_archives(N_ARCHIVES, archive_store, tools, record_property)


@pytest.mark.slow
def test_many_damaged_datasets(dataset_store, tools, record_property):
    fuzz_datasets(N_DATASETS, dataset_store, tools, record_property)
