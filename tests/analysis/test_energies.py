import itertools

import numpy as np
import pytest
import xarray as xr

KINDS = [("sum", None), ("largest_2x2", None), ("centre", None), ("brightest", 4)]


def windows(shape, dtype, n=400, seed=5):
    rng = np.random.default_rng(seed)
    signal = rng.normal(0, 30, (n, *shape))
    signal[:, shape[0] // 2, shape[1] // 2] += 300
    return np.rint(signal).astype(dtype) if np.dtype(dtype).kind == "i" else signal.astype(dtype)


def clusters(shape, dtype, n=400):
    rng = np.random.default_rng(1)
    return xr.Dataset(
        {
            "signal": (("cluster", "cluster_y", "cluster_x"), windows(shape, dtype, n)),
            "y": ("cluster", rng.integers(0, 20, n).astype(np.uint16)),
            "x": ("cluster", rng.integers(0, 25, n).astype(np.uint16)),
        }
    )


def squares(window):
    cy, cx = window.shape[0] // 2, window.shape[1] // 2
    return [window[cy + a : cy + a + 2, cx + b : cx + b + 2].sum() for a, b in itertools.product((-1, 0), (-1, 0))]


def by_hand(window, kind, n):
    wide = window.astype(np.float64)
    if kind == "sum":
        return wide.sum()
    if kind == "largest_2x2":
        return max(squares(wide))
    if kind == "centre":
        return wide[window.shape[0] // 2, window.shape[1] // 2]
    return np.sort(wide.ravel())[-n:].sum()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 5), (9, 9), (3, 7)])
def test_each_energy_is_what_it_says(shape, dtype):
    ds = clusters(shape, dtype)
    for kind, n in KINDS:
        expected = [by_hand(window, kind, n) for window in ds.signal.values]
        found = ds.photons.energy(kind, n)
        np.testing.assert_allclose(found, expected, rtol=0 if dtype == "int32" else 1e-13, atol=0)
        lazy = ds.chunk(cluster=61).photons.energy(kind, n)
        assert lazy.chunks is not None
        xr.testing.assert_identical(lazy.compute(), found)
        assert (found.attrs["units"], found.name) == ("ADU", "energy")


def test_the_corner_says_which_2x2_is_the_largest():
    ds = clusters((5, 3), "int32")
    corner = ds.photons.corner()
    assert corner.attrs["flag_meanings"].split()[1] == "low_y_high_x"
    np.testing.assert_array_equal(corner, [np.argmax(squares(window)) for window in ds.signal.values])
    assert set(corner.values) == {0, 1, 2, 3}
    xr.testing.assert_identical(ds.chunk(cluster=100).photons.corner().compute(), corner)


def test_a_line_of_pixels_has_a_sum_but_no_2x2():
    line = clusters((1, 5), "int32")
    np.testing.assert_array_equal(line.photons.energy(), line.signal.values.sum(axis=(1, 2)))
    with pytest.raises(ValueError, match="1×5 pixels; the largest 2×2 needs at least 3×3"):
        line.photons.energy("largest_2x2")


def test_a_gain_and_an_offset_make_kilo_electron_volts():
    photons = clusters((3, 3), "int32").photons
    energy = photons.calibrated(gain=50.0, offset=10.0).energy()
    np.testing.assert_allclose(energy, (photons.energy() - 10) / 50, rtol=1e-14)
    assert energy.attrs["units"] == "keV"
    spectrum = photons.calibrated(50.0, 10.0).spectrum(40, (0, 12))
    np.testing.assert_array_equal(spectrum, np.histogram(energy, 40, (0, 12))[0])
    assert spectrum.energy.attrs["units"] == "keV"
    assert spectrum.attrs["long_name"] == "clusters per 0.3 keV"


@pytest.mark.parametrize("kind", ["sum", "largest_2x2"])
def test_a_gain_map_divides_each_pixel_by_its_own_gain(kind):
    ds = clusters((3, 3), "int32")
    rng = np.random.default_rng(2)
    gain, offset = rng.uniform(80, 120, (20, 25)), rng.uniform(-5, 5, (20, 25))
    expected = []
    for window, y, x in zip(ds.signal.values, ds.y.values.astype(int), ds.x.values.astype(int), strict=True):
        padded = np.pad(gain, 1, constant_values=np.inf)[y : y + 3, x : x + 3]
        expected.append(by_hand(window / padded, kind, None) - offset[y, x] / gain[y, x])
    scaled = ds.photons.calibrated(xr.DataArray(gain, dims=("y", "x")), offset)
    np.testing.assert_allclose(scaled.energy(kind), expected, rtol=1e-12)
    xr.testing.assert_identical(
        ds.chunk(cluster=90).photons.calibrated(gain, offset).energy(kind).compute(), scaled.energy(kind)
    )


def test_clusters_on_pixels_without_a_gain_have_no_energy_and_are_counted():
    ds = clusters((3, 3), "int32")
    gain = np.full((20, 25), 100.0)
    gain[:10], gain[5, 5] = np.nan, 0
    photons = ds.photons.calibrated(gain)
    lost = ds.y.values < 10
    np.testing.assert_array_equal(np.isnan(photons.energy()), lost)
    next_to_it = (ds.y.values == 10) & (ds.x.values > 0) & (ds.x.values < 24)
    np.testing.assert_allclose(photons.energy()[next_to_it], ds.photons.energy()[next_to_it] / 100)
    spectrum = photons.spectrum()
    assert spectrum.attrs["uncalibrated"] == lost.sum()
    assert spectrum.sum() + spectrum.attrs["below"] + spectrum.attrs["above"] == (~lost).sum()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.energy("most"), "must be one of sum, largest_2x2, centre, brightest"),
        (lambda p: p.energy("brightest"), "Give n"),
        (lambda p: p.energy("brightest", 10), "1 to 9 brightest"),
        (lambda p: p.energy("sum", 3), "n is for energy='brightest'"),
        (lambda p: p.calibrated(0), "must be a positive number"),
        (lambda p: p.calibrated("high"), "must be a number or a map"),
        (lambda p: p.calibrated(np.ones(3)), r"has the shape \(3,\)"),
        (lambda p: p.calibrated(np.zeros((4, 4))), "No pixel of the gain map"),
        (lambda p: p.calibrated(np.ones((4, 4)), np.ones((4, 5))), "different shapes"),
        (lambda p: p.calibrated(np.ones((4, 4))).energy(), r"beyond the shape \(4, 4\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(ask, message):
    with pytest.raises(ValueError, match=message) as caught:
        ask(clusters((3, 3), "int32").photons)
    assert "\n" not in str(caught.value)


def test_pixels_above_the_noise_are_counted_each_by_its_own():
    ds = clusters((3, 3), "int32")
    noise = np.random.default_rng(3).uniform(10, 60, (20, 25))
    expected = []
    for window, y, x in zip(ds.signal.values, ds.y.values.astype(int), ds.x.values.astype(int), strict=True):
        expected.append((window > 2 * np.pad(noise, 1, constant_values=np.inf)[y : y + 3, x : x + 3]).sum())
    np.testing.assert_array_equal(ds.photons.pixels_above(2, noise), expected)
    counts = ds.chunk(cluster=77).photons.multiplicity(2, noise)
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=10))
    assert counts.multiplicity.attrs["long_name"] == "pixels above 2 times the noise"
    np.testing.assert_array_equal(ds.photons.pixels_above(2, 30.0), (ds.signal > 60).sum(("cluster_y", "cluster_x")))
    kept = ds.photons.where(ds.y < 10).multiplicity(2, noise)
    np.testing.assert_array_equal(kept, np.bincount(np.array(expected)[ds.y.values < 10], minlength=10))


def test_one_cluster_and_none_have_energies():
    for n in (0, 1):
        ds = clusters((3, 3), "float32", n)
        for kind, k in KINDS:
            assert ds.photons.energy(kind, k).sizes["cluster"] == n
            assert ds.chunk(cluster=5).photons.energy(kind, k).compute().sizes["cluster"] == n
        assert ds.photons.multiplicity(1, 1.0).sum() == n
        assert ds.photons.spectrum().sum() == n
        assert ds.photons.calibrated(2.0).noise_cuts(5, 1.0).isolated  # chains
        assert ds.photons.corner().sizes["cluster"] == n


def test_a_map_of_another_detector_a_whole_fit_and_counts_without_a_list_are_refused_in_a_sentence(make_photons):
    ds = make_photons(1000)
    shape = tuple(int(side) for side in ds.attrs["frame_shape"])
    with pytest.raises(ValueError, match=r"has the shape \(50, 50\), and the detector"):
        ds.photons.calibrated(np.full((50, 50), 100.0))
    ds.photons.calibrated(np.full(shape, 100.0))
    with pytest.raises(ValueError, match=r"gain is a Dataset; give its gain, gain=found\.gain"):
        ds.photons.calibrated(ds.photons.fit_line("Cu"))
    with pytest.raises(ValueError, match="group='products'"):
        ds[["n_clusters"]].photons.spectrum()
