"""``photonflow process --products`` as a user meets it."""

from __future__ import annotations

import json

import pytest
import xarray as xr


def test_products_without_the_list_are_said_and_opened_as_the_table_says(python_m, archive):
    arguments = ("--products", "spectrum,hitmap", "--spectrum-bins", "0:1000:10", "--no-clusters", "--cpus", 1)
    outcome = python_m("process", archive, *arguments, "--no-progress")
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1].endswith("a.clusters.zarr', group='products')")
    out = archive.with_name("a.clusters.zarr")
    products = xr.open_zarr(out, group="products")
    assert dict(products.sizes) == {"energy": 100, "y": 12, "x": 10}
    n = int(xr.open_zarr(out).n_clusters.sum())
    assert n >= 30
    assert int(products.hit_map.sum()) == n
    # A run that is complete has nothing left to be done.
    again = python_m("process", archive, *arguments, "--resume", "--no-progress")
    assert again.code == 0, again.stderr
    assert "nothing to resume" in again.stdout


def test_a_dry_run_says_what_would_be_counted(photonflow, archive):
    outcome = photonflow("process", archive, "--products", "eta", "--no-clusters", "--dry-run")
    assert outcome.code == 0, outcome.stderr
    said = " ".join(outcome.stdout.split())
    assert "counted eta in 150 bins" in said
    assert "no list of about" in said
    arguments = ("--products", "eta", "--no-clusters", "--dry-run", "--json")
    assert json.loads(photonflow("process", archive, *arguments).stdout)["write_bytes"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--no-clusters",), 1, "say what to count with --products"),
        (("--products", "rate"), 2, "'rate' is none of spectrum, hitmap, eta"),
        (("--products", "spectrum", "--spectrum-bins", "0:100"), 2, "is not low:high:width in whole ADU"),
        (("--products", "spectrum", "--spectrum-bins", "0:100:7"), 1, "spectrum bins 0:100:7"),
        (("--products", "eta", "--eta-bins", "0"), 1, "eta bins are 0"),
    ],
)
def test_what_can_not_be_counted_is_said(photonflow, archive, arguments, code, said):
    outcome = photonflow("process", archive, *arguments)
    assert outcome.code == code
    assert said in outcome.stderr
    assert not archive.with_name("a.clusters.zarr").exists()
