"""Products of a run: the same counts as those of the cluster list, with it or instead of it."""

from __future__ import annotations

import numpy as np
import pytest

from finder.products import PRODUCTS, ProductCounter, ProductOptions, SpectrumBins
from pipeline.products import ProductTotals, products_table

OPTIONS = ProductOptions(PRODUCTS, SpectrumBins(0, 400, 2), eta_bins=12)
SHAPE = (20, 30)


def some_products(seed, n=500):
    rng = np.random.default_rng(seed)
    counter = ProductCounter(OPTIONS, SHAPE, (3, 3))
    y, x = (rng.integers(0, side, n).astype(np.uint16) for side in SHAPE)
    counter.add(y, x, rng.normal(20, 30, (n, 3, 3)).astype(np.int32))
    return counter.products.narrowed()


@pytest.fixture
def totals(tmp_path):
    return ProductTotals(OPTIONS, SHAPE, tmp_path, "first")


def assert_same_products(first, second):
    for ours, theirs in zip(first.arrays, second.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_batch_is_in_the_sum_once_however_often_it_is_found(totals):
    for batch in (3, 0, 3, 1, 0):
        totals.add(batch, some_products(batch))
    assert sorted(totals.batches) == [0, 1, 3]
    assert [int(array.sum()) for array in totals.products.arrays] == [1500] * 3


def test_a_sum_is_taken_up_where_it_was_left(totals, tmp_path):
    totals.add(2, some_products(2))
    totals.save()
    totals.add(5, some_products(5))
    again = ProductTotals(OPTIONS, SHAPE, tmp_path, "first")
    again.load(range(6))
    assert sorted(again.batches) == [2]
    again.add(2, some_products(2))
    again.add(5, some_products(5))
    assert_same_products(again.products, totals.products)
    assert [path.name for path in tmp_path.iterdir()] == ["products.npz"]


def test_a_sum_that_is_not_this_runs_or_not_whole_is_not_taken_up(totals, tmp_path):
    totals.add(2, some_products(2))
    totals.save()

    def taken_up(options=OPTIONS, origin="first", known=range(6)):
        other = ProductTotals(options, SHAPE, tmp_path, origin)
        other.load(known)
        return len(other.batches) > 0

    assert taken_up()
    assert not taken_up(origin="second")
    assert not taken_up(options=ProductOptions(("hitmap",)))
    assert not taken_up(options=ProductOptions(PRODUCTS, SpectrumBins(0, 402, 2), eta_bins=12))
    # A batch that the journal doesn't know may yet come to something else.
    assert not taken_up(known=[0, 1])
    whole = (tmp_path / "products.npz").read_bytes()
    for damaged in (whole[:-100], whole[:2000] + b"??" + whole[2002:], b"", b"no zip"):
        (tmp_path / "products.npz").write_bytes(damaged)
        assert not taken_up()


def test_the_table_says_what_its_numbers_mean(totals):
    totals.add(0, some_products(0))
    table = products_table(totals.products, OPTIONS)
    assert {name: array.dims for name, array in table.data_vars.items()} == {
        "spectrum": ("energy",), "hit_map": ("y", "x"), "eta": ("eta_y", "eta_x"),
    }  # fmt: skip
    spectrum, hit_map, eta = table.spectrum, table.hit_map, table.eta
    assert int(spectrum.sum()) + spectrum.attrs["below"] + spectrum.attrs["above"] == 500
    assert (spectrum.energy[0], spectrum.energy[1], spectrum.energy.attrs["units"]) == (0.5, 2.5, "ADU")
    assert (int(hit_map.sum()), hit_map.shape) == (500, SHAPE)
    assert int(eta.sum()) + eta.attrs["outside"] == 500
    assert float(eta.eta_x[0]) == pytest.approx(-0.25 + 1.5 / 24)
    assert set(products_table(totals.products, ProductOptions(("eta",), eta_bins=12)).data_vars) == {"eta"}
