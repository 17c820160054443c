"""What a GPU counts of clusters is what the CPU counts of them, however the frames come to it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from emulation.device import EmulatedDevice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finder import CommonMode, FinderParameters, Pedestal, open_finder, rounded
from finder.products import PRODUCTS, ProductCounter, ProductOptions, SpectrumBins
from finder.rounding import SignalRangeError
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings

ALL = ProductOptions(PRODUCTS, SpectrumBins(-50, 850, 4), eta_bins=21)
SHAPE = (12, 37)
WINDOWS = [((3, 3), "uint16"), ((3, 3), "float32"), ((5, 5), "int32"), ((3, 5), "uint16"), ((9, 9), "uint16")]


def frames_of(seed, n_frames, dtype=np.uint16, share=0.05, spread=60):
    rng = np.random.default_rng(seed)
    lit = rng.random((n_frames, *SHAPE)) < share
    return np.abs(rng.normal(100, 2, lit.shape) + lit * rng.exponential(spread, lit.shape)).round().astype(dtype)


def pedestal_of(n_samples=1000):
    return Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0), n_samples)


def on_device(device, parameters, options, mask=None, **how):
    how = {"n_streams": 1, "chunk_frames": 8} | how
    return CudaFinder(parameters, SHAPE, mask, device=device, settings=GpuSettings(**how), counts=options)


def counted(found, options, window):
    counter = ProductCounter(options, SHAPE, window)
    for clusters in found:
        counter.add(clusters.y, clusters.x, rounded(clusters.signal, np.int32))
    return counter.products


def assert_same(ours, theirs):
    for mine, other in zip(ours.arrays, theirs.arrays, strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == np.int64


@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_gpu_counts_what_the_cpu_counts(cpu_compiler, data):
    draw = data.draw
    window, kind = draw(st.sampled_from(WINDOWS))
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Low thresholds are wanted here: more clusters, smaller sums.
        parameters = FinderParameters(
            n_sigma=draw(st.sampled_from([0.5, 3.0, 5.0])),
            cluster_size=window,
            common_mode=CommonMode.parse("row") if kind == "float32" else None,
        )
    names = draw(st.sampled_from([PRODUCTS, PRODUCTS, ("spectrum",), ("hitmap",), ("eta",), ("spectrum", "eta")]))
    bins = draw(st.sampled_from([ALL.spectrum, SpectrumBins(), SpectrumBins(-7, 14, 3), SpectrumBins(40, 41)]))
    options = ProductOptions(names, bins, draw(st.sampled_from([1, 21, 150])))
    frames = frames_of(seed, draw(st.integers(1, 30)), np.uint16 if kind == "float32" else kind, spread=400)
    mask = rng.random(SHAPE) < 0.2 if draw(st.booleans()) else None
    finder = on_device(
        EmulatedDevice(cpu_compiler, seed),
        parameters,
        options,
        mask,
        chunk_frames=draw(st.integers(1, 9)),
        graphs=draw(st.booleans()),
        overlap=draw(st.booleans()),
        room=draw(st.sampled_from([1e-6, 0.02])),  # With little, clusters are gathered again.
    )
    edges = [*sorted(draw(st.lists(st.integers(0, len(frames)), max_size=3))), len(frames)]
    chain = finder.chain(pedestal_of(), tracking=draw(st.booleans()))
    expected = open_finder("reference", parameters, SHAPE, mask).chain(pedestal_of(), tracking=chain.tracking)
    # What only moves the pedestal is not counted.
    chain.update(frames[: edges[0]])
    expected.update(frames[: edges[0]])
    found = []
    for a, b in itertools.pairwise(edges):
        found.append(expected.find(frames[a:b]))
        counts = chain.count(frames[a:b]) if draw(st.booleans()) else chain.find(frames[a:b]).n_clusters
        np.testing.assert_array_equal(counts, found[-1].n_clusters)
    assert_same(chain.products, counted(found, options, window))


def test_chains_do_not_count_each_others_clusters(device):
    finder = on_device(device, FinderParameters(), ALL, n_streams=2)
    reference = open_finder("reference", FinderParameters(), SHAPE)
    inputs = [frames_of(seed, 20) for seed in range(3)]
    chains = [finder.chain(pedestal_of()) for _ in inputs]
    for part in (slice(0, 9), slice(9, 20)):
        for chain, frames in zip(chains, inputs, strict=True):
            chain.count(frames[part])
    for chain, frames in zip(chains, inputs, strict=True):
        assert_same(chain.products, counted([reference.find(frames, pedestal_of())], ALL, (3, 3)))
    # The memory of a chain that is no more serves the next, which begins with nothing.
    del chain, chains
    again = finder.chain(pedestal_of())
    assert again.products.spectrum.sum() == 0
    again.count(inputs[0])
    assert_same(again.products, counted([reference.find(inputs[0], pedestal_of())], ALL, (3, 3)))


def test_clusters_that_nobody_wants_stay_on_the_gpu(device):
    frames = frames_of(4, 30)
    finder = on_device(device, FinderParameters(), ALL)
    counting, finding = finder.chain(pedestal_of()), finder.chain(pedestal_of())
    n_clusters = counting.count(frames)
    found = finding.find(frames)
    np.testing.assert_array_equal(n_clusters, found.n_clusters)
    assert counting.device_use.d2h_bytes == 0
    assert finding.device_use.d2h_bytes == len(found) * (9 * 4 + 4 + 2 + 2) > 0
    assert_same(counting.products, finding.products)
    # Everything else about the chain is the same.
    np.testing.assert_array_equal(counting.pedestal.s2, finding.pedestal.s2)
    np.testing.assert_array_equal(counting.activity.centres, finding.activity.centres)


@pytest.mark.parametrize("names", [PRODUCTS, ("hitmap",), ("eta",)], ids=str)
def test_values_that_fit_no_int32_are_refused_as_on_the_cpu(device, names):
    frames = np.zeros((3, *SHAPE), np.uint32)
    pedestal = Pedestal.from_mean_and_noise(np.zeros(SHAPE), np.full(SHAPE, 2.0))
    finder = on_device(device, FinderParameters(), ProductOptions(names))
    frames[2, 5, 6] = 2**31 - 200
    chain = finder.chain(pedestal)
    chain.count(frames)
    assert sum(int(array.sum()) for array in chain.products.arrays) == len(names)
    frames[2, 5, 6] = 2**31 + 200
    chain.count(frames)
    with pytest.raises(SignalRangeError, match="does not fit int32"):
        _ = chain.products
    # Without the list of clusters there is no other place where this would show.
    with pytest.raises(SignalRangeError):
        rounded(finder.chain(pedestal).find(frames).signal, np.int32)


def test_a_finder_that_counts_nothing_says_so(device):
    assert CudaFinder(FinderParameters(), SHAPE, device=device).counts.names == ()
    chain = open_finder("reference", FinderParameters(), SHAPE).chain(pedestal_of())
    np.testing.assert_array_equal(chain.count(frames_of(1, 5)), chain.find(frames_of(1, 5)).n_clusters)
    assert [array.size for array in chain.products.arrays] == [0, 0, 0]
