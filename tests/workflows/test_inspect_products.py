"""`inspect` on a dataset that has products instead of a list of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_store import ClusterWriter, DatasetLayout, create_dataset, finish_dataset, write_table
from finder.products import PRODUCTS, ProductCounter, ProductOptions
from pipeline.output.products import products_table

SHAPE = (30, 50)


@pytest.fixture
def listless(tmp_path):
    """20 000 photons of 800 ADU in 100 frames, counted."""
    path, rng = tmp_path / "c.zarr", np.random.default_rng(3)
    layout = DatasetLayout(100, 0, 50, SHAPE, (3, 3), cluster_list=False)
    options = ProductOptions(PRODUCTS)
    counter = ProductCounter(options, SHAPE, (3, 3))
    y, x = (rng.integers(0, side, 20_000).astype(np.uint16) for side in SHAPE)
    share = rng.dirichlet(np.full(9, 0.5), 20_000).reshape(-1, 3, 3)
    counter.add(y, x, np.rint(800 * share + rng.normal(0, 12, share.shape)).astype(np.int32))
    create_dataset(path, layout, {"n_sigma": 5.0})
    n = np.full(100, 200, np.uint32)
    ClusterWriter(path, layout).write_frames(0, n, np.arange(100, dtype=np.uint64), np.zeros(100, np.uint8))
    write_table(path, "products", products_table(counter.products, options))
    finish_dataset(path, layout, 20_000, {})
    return path


def test_the_page_says_that_clusters_were_counted_and_not_listed(photonflow, listless):
    outcome = photonflow("inspect", listless)
    assert outcome.code == 0, outcome.stderr
    said = " ".join(outcome.stdout.split())
    for fact in (
        "clusters 20,000, counted and not listed (--no-clusters)",
        "hit map 30 × 50 bins, 20,000 clusters",
        "spectrum 16,384 bins, 20,000 clusters",
        "products = xr.open_zarr(",
    ):
        assert fact in said, said


def test_its_pictures_are_drawn_from_what_was_counted(photonflow, listless, tmp_path):
    outcome = photonflow("inspect", listless, "--png", "pictures")
    assert outcome.code == 0, outcome.stderr
    assert sorted(path.name.split(".")[-2] for path in (tmp_path / "pictures").iterdir()) == [
        "eta", "hit_map", "rate", "spectrum",
    ]  # fmt: skip
