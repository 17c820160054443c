"""Counts instead of clusters: exact, whatever the order in which they are added up."""

import itertools
import pickle
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from finder.products import PRODUCTS, ProductCounter, ProductOptions, Products, SpectrumBins, added

SHAPE = (30, 40)
OPTIONS = ProductOptions(PRODUCTS, SpectrumBins(-50, 850, 4), eta_bins=21)


def clusters(n=4000, window=(3, 3), seed=5, spread=120):
    """Windows with every kind of eta: within and beyond its limits, on edges of bins, and none at all."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(40, spread, (n, *window)).astype(np.int32)
    signal[: n // 4] = rng.integers(-2, 3, (n // 4, *window))  # small numbers: ties, zeros, simple fractions
    return rng.integers(0, SHAPE[0], n).astype(np.uint16), rng.integers(0, SHAPE[1], n).astype(np.uint16), signal


def plainly_counted(y, x, signal, options):
    """The definition, one cluster at a time, with Python's integers and fractions."""
    bins = options.spectrum
    spectrum, hits = np.zeros(len(bins) + 2, np.int64), np.zeros(SHAPE, np.int64)
    eta = np.zeros(options.eta_bins**2 + 1, np.int64)
    for row, column, window in zip(y.tolist(), x.tolist(), signal.tolist(), strict=True):
        total = sum(map(sum, window))
        place = floor(Fraction(total - bins.low, bins.width))
        spectrum[-2 if total < bins.low else -1 if total >= bins.high else place] += 1
        hits[row, column] += 1
        eta[eta_place(window, options.eta_bins)] += 1
    return spectrum, hits, eta


def eta_place(window, n):
    cy, cx = len(window) // 2, len(window[0]) // 2
    squares = [
        (sum(window[r][c] for r in (cy - 1 + b, cy + b) for c in (cx - 1 + r_, cx + r_)), -2 * b - r_, b, r_)
        for b in (0, 1)
        for r_ in (0, 1)
    ]
    _, _, below, right = max(squares)
    across, down = (
        window[cy][cx - 1 + right : cx + 1 + right],
        [row[cx] for row in window[cy - 1 + below : cy + 1 + below]],
    )
    if sum(across) == 0 or sum(down) == 0:
        return n * n
    eta_x, eta_y = (Fraction(pair[1], sum(pair)) for pair in (across, down))
    place_x, place_y = (
        min(max(floor(n * (eta + Fraction(1, 4)) / Fraction(3, 2)), 0), n - 1) for eta in (eta_x, eta_y)
    )
    return place_y * n + place_x


def counted(y, x, signal, options=OPTIONS):
    counter = ProductCounter(options, SHAPE, signal.shape[1:])
    counter.add(y, x, signal)
    return counter.products


@pytest.mark.parametrize("window", [(3, 3), (5, 5), (9, 9), (3, 5)])
@pytest.mark.parametrize("spread", [20, 120, 2**27])
def test_the_counts_are_those_of_the_definition(window, spread):
    y, x, signal = clusters(1000, window, spread=spread)
    for ours, plain in zip(counted(y, x, signal).arrays, plainly_counted(y, x, signal, OPTIONS), strict=True):
        np.testing.assert_array_equal(ours, plain)
        assert ours.sum() == 1000


def test_parts_add_up_to_the_same_in_any_order_and_however_they_were_cut():
    y, x, signal = clusters()
    whole = counted(y, x, signal)
    rng = np.random.default_rng(1)
    for n_parts in (2, 7, 40):
        cuts = [0, *np.sort(rng.integers(0, len(y), n_parts - 1)), len(y)]
        parts = [
            pickle.loads(pickle.dumps(counted(y[a:b], x[a:b], signal[a:b]).narrowed()))
            for a, b in itertools.pairwise(cuts)
        ]
        rng.shuffle(parts)
        for together, expected in zip(added(parts).arrays, whole.arrays, strict=True):
            np.testing.assert_array_equal(together, expected)
            assert together.dtype == np.int64


def test_only_what_was_asked_for_is_counted():
    y, x, signal = clusters(100)
    for name, array in zip(PRODUCTS, Products.zeros(OPTIONS, SHAPE).arrays, strict=True):
        options = ProductOptions((name,), OPTIONS.spectrum, OPTIONS.eta_bins)
        sizes = [counts.size for counts in counted(y, x, signal, options).arrays]
        assert sizes[PRODUCTS.index(name)] == array.size
        assert sorted(sizes)[:2] == [0, 0]


def test_no_cluster_counts_as_none():
    y, x, signal = clusters(0)
    assert [int(counts.sum()) for counts in counted(y, x, signal).arrays] == [0, 0, 0]


def test_the_centres_and_edges_of_bins_are_those_of_whole_adu():
    bins = SpectrumBins(-50, 850, 4)
    assert (len(bins), bins.edges[0], bins.edges[-1]) == (225, -50.5, 849.5)
    assert bins.centres[0] == np.mean([-50, -49, -48, -47])


@pytest.mark.parametrize("bins", [(0, 0, 1), (10, 0, 1), (0, 10, 0), (0, 10, 3), (0, 2**30, 1)])
def test_bins_that_make_no_sense_are_refused(bins):
    with pytest.raises(ValueError, match="spectrum bins"):
        SpectrumBins(*bins)


def test_products_that_can_not_be_are_refused():
    with pytest.raises(ValueError, match="'rate' is none of spectrum, hitmap, eta"):
        ProductOptions(("rate",))
    with pytest.raises(ValueError, match="eta bins"):
        ProductOptions(("eta",), eta_bins=0)
    with pytest.raises(ValueError, match="windows of 3x3 at least, not 1x5"):
        ProductCounter(ProductOptions(("eta",)), SHAPE, (1, 5))
