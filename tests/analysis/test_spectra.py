import numpy as np
import pytest
import xarray as xr
from distributed import Client

import analysis


def test_the_energy_is_the_sum_over_the_window_and_stays_lazy(loaded, stored):
    energy = stored.photons.energy()
    assert energy.chunks is not None
    np.testing.assert_array_equal(energy, loaded.signal.values.sum(axis=(1, 2)))
    assert (energy.attrs["units"], energy.dims) == ("ADU", ("cluster",))


def test_the_spectrum_counts_every_cluster_once(stored, loaded):
    total = loaded.signal.values.sum(axis=(1, 2))
    spectrum = stored.photons.spectrum(bins=37, range=(700, 900))
    np.testing.assert_array_equal(spectrum, np.histogram(total, 37, (700, 900))[0])
    assert spectrum.attrs["below"] == (total < 700).sum() > 0
    assert spectrum.attrs["above"] == (total > 900).sum() > 0
    assert int(spectrum.sum()) + spectrum.attrs["below"] + spectrum.attrs["above"] == stored.sizes["cluster"]
    np.testing.assert_allclose(spectrum.energy[:2], [700 + 100 / 37, 700 + 300 / 37])
    assert spectrum.energy.attrs["units"] == "ADU"


def test_a_lazy_dataset_gives_the_same_as_a_loaded_one(stored, loaded):
    xr.testing.assert_identical(stored.photons.spectrum(), loaded.photons.spectrum())
    xr.testing.assert_identical(stored.photons.hit_map(), loaded.photons.hit_map())
    xr.testing.assert_identical(stored.photons.rate(7), loaded.photons.rate(7))
    xr.testing.assert_identical(stored.photons.isolated(3).kept().compute(), loaded.photons.isolated(3).kept())


def test_edges_of_ones_own_are_taken(loaded):
    edges = [0.0, 800.0, 850.0, 2000.0]
    spectrum = loaded.photons.spectrum(bins=edges)
    np.testing.assert_array_equal(spectrum, np.histogram(loaded.signal.values.sum(axis=(1, 2)), edges)[0])
    assert "bin_width" not in spectrum.attrs


@pytest.mark.parametrize("bins", [50, 120, 500, 3000])
def test_integer_signals_get_bins_of_whole_adu_so_that_no_comb_appears(make_photons, bins):
    flat = make_photons(60_000)
    flat["signal"] = flat.signal * 0
    flat["signal"][:, 1, 1] = np.arange(60_000) % 1000
    spectrum = flat.photons.spectrum(bins)
    assert len(spectrum) <= bins
    assert spectrum.attrs["bin_width"] == int(spectrum.attrs["bin_width"])
    whole = spectrum.where(spectrum.energy < 1000 - spectrum.attrs["bin_width"], drop=True)
    assert len(set(whole.values)) == 1


def test_the_default_range_shows_nearly_all_clusters(stored):
    spectrum = stored.photons.spectrum()
    assert spectrum.attrs["below"] == 0
    assert spectrum.attrs["above"] < 0.01 * stored.sizes["cluster"]
    assert 820 < spectrum.energy[-1] < 1200


def test_no_clusters_give_an_empty_spectrum(make_photons):
    empty = make_photons(0)
    assert int(empty.photons.spectrum().sum()) == 0
    assert empty.photons.energy().size == 0
    with pytest.raises(ValueError, match="no peak to fit"):
        empty.photons.peak()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "at least 1"),
        ({"bins": [1.0]}, "two finite edges"),
        ({"bins": [2.0, 1.0]}, "ascending"),
        ({"range": (5, 5)}, "the lower one first"),
        ({"range": (0, np.nan)}, "finite"),
    ],
)
def test_bins_that_make_no_sense_are_refused(loaded, options, message):
    with pytest.raises(ValueError, match=message):
        loaded.photons.spectrum(**options)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_the_peak_stands_at_the_photons_energy(make_photons, k_alpha, dtype):
    peak = make_photons(20_000, dtype=dtype).photons.peak()
    assert abs(peak.position - k_alpha) < 4 * peak.position_error
    assert peak.position_error < 1
    assert peak.sigma == pytest.approx(3 * 12, rel=0.05)  # nine pixels of noise 12


@pytest.mark.parametrize("n", [150, 1000, 200_000])
def test_the_error_of_the_peak_is_about_right(n):
    rng = np.random.default_rng(n)
    edges = np.arange(-0.5, 1000, 1)
    centres = xr.Variable("energy", (edges[1:] + edges[:-1]) / 2)
    pulls = []
    for _ in range(40):
        counts = np.histogram(np.rint(rng.normal(600, 40, n)), edges)[0]
        peak = analysis.fit_peak(xr.DataArray(counts, coords={"energy": centres}, dims="energy"))
        pulls.append((peak.position - 600) / peak.position_error)
    assert 0.6 < np.std(pulls) < 1.5
    assert abs(np.mean(pulls)) < 0.6


def test_the_peak_of_a_range_is_not_the_highest_of_all(make_photons):
    photons = make_photons(20_000)
    brighter = photons.assign(signal=photons.signal * np.where(np.arange(20_000) % 4 == 0, 2, 1)[:, None, None])
    assert brighter.photons.peak().position == pytest.approx(804.8, abs=3)
    assert brighter.photons.peak(bins=200, range=(1200, 2000)).position == pytest.approx(1609.6, abs=6)


def test_counts_that_only_rise_have_no_peak(loaded):
    with pytest.raises(ValueError, match="no peak"):
        loaded.photons.peak(bins=55, range=(650, 760))


def test_the_workers_of_a_cluster_count_the_same(stored, loaded):
    spectrum = loaded.photons.noise_cuts(3, 20.0).isolated(2).spectrum(50, (600, 1000))
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        found = stored.photons.noise_cuts(3, 20.0).isolated(2).spectrum(50, (600, 1000))
        image = stored.photons.eta_histogram(bins=20)
    xr.testing.assert_identical(found, spectrum)
    xr.testing.assert_identical(image, loaded.photons.eta_histogram(bins=20))


def test_a_single_gain_brings_no_comb_into_a_spectrum(make_photons):
    photons = make_photons(50_000).photons
    in_adu, in_kev = photons.spectrum(), photons.calibrated(99.7, offset=1.3).spectrum()
    # As many ADU a bin, and edges halfway between two of them: each bin holds as many of the possible values.
    assert in_kev.attrs["bin_width"] * 99.7 == pytest.approx(in_adu.attrs["bin_width"])
    lowest = (in_kev.energy.values - in_kev.attrs["bin_width"] / 2) * 99.7 + 1.3
    np.testing.assert_allclose(lowest % 1, 0.5, atol=1e-6)
    with pytest.warns(analysis.UnitsWarning):
        in_kev = photons.calibrated(99.7).fit_line("Cu")
    assert float(in_kev.chi2) < 1.2 * float(photons.fit_line("Cu").chi2)


def test_bins_that_make_a_comb_are_warned_of(make_photons):
    photons = make_photons(1000).photons
    with pytest.warns(analysis.UnevenBinsWarning, match="hold now 1, now 2 of them"):
        photons.calibrated(99.7).spectrum(bins=300, range=(5, 10))
    with pytest.warns(analysis.UnevenBinsWarning, match=r"np\.arange\(500, 900, 3\)"):
        photons.spectrum(bins=150, range=(500, 900))
    photons.calibrated(100.0).spectrum(bins=500, range=(5, 10))
    photons.calibrated(np.full(photons.shape(None), 99.7)).spectrum(bins=300, range=(5, 10))


def test_bins_that_nobody_chose_are_even_within_a_range_too(make_photons):
    photons = make_photons(1000).photons
    spectrum = photons.spectrum(range=(0, 1200))
    assert spectrum.attrs["bin_width"] == 3
    assert spectrum.energy[0] == 1  # 0, 1 and 2 ADU
    assert int(spectrum.sum()) == int(((photons.energy() >= 0) & (photons.energy() <= 1200)).sum())
