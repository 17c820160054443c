import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr


def kept(photons):
    return np.flatnonzero(photons.kept().values)


def rows(condition):
    return np.flatnonzero(np.asarray(condition))


@pytest.fixture(params=["eager", "lazy"])
def ds(request, loaded, stored):
    return loaded if request.param == "eager" else stored


def test_a_region_of_interest_is_half_open(ds, loaded):
    y, x = loaded.y.values, loaded.x.values
    expected = rows((y >= 5) & (y < 12) & (x < 30))
    np.testing.assert_array_equal(kept(ds.photons.roi(y=(5, 12), x=(0, 30))), expected)
    np.testing.assert_array_equal(kept(ds.photons.roi(slice(5, 12), slice(30))), expected)
    np.testing.assert_array_equal(kept(ds.photons.roi(x=slice(48, None))), rows(x >= 48))
    assert ds.photons.roi().count() == len(y)
    assert ds.photons.roi(y=(7, 7)).count() == 0


def test_masked_pixels_are_dropped_and_those_whose_window_touches_one(ds, loaded, frames_and_shape):
    y, x = loaded.y.values.astype(int), loaded.x.values.astype(int)
    mask = np.zeros(frames_and_shape[1], bool)
    mask[10, 20] = mask[0, 0] = True
    on = ((y == 10) & (x == 20)) | ((y == 0) & (x == 0))
    near = ((abs(y - 10) <= 1) & (abs(x - 20) <= 1)) | ((y <= 1) & (x <= 1))
    np.testing.assert_array_equal(kept(ds.photons.mask(mask)), rows(~on))
    np.testing.assert_array_equal(kept(ds.photons.mask(mask, touching=True)), rows(~near))
    bits = xr.DataArray(mask.astype(np.uint32) << 3, dims=("y", "x"))
    bits[5, 5] = 1 << 20  # says something about the pixel, but not that it is bad
    np.testing.assert_array_equal(kept(ds.photons.mask(bits)), rows(~on))


def test_noise_cuts_drop_what_is_not_above_each_of_the_three_limits(ds, loaded, frames_and_shape):
    noise = np.random.default_rng(1).uniform(50, 160, frames_and_shape[1])
    at = noise[loaded.y.values, loaded.x.values]
    signal = loaded.signal.values
    pairs = [signal[:, a : a + 2, b : b + 2].sum(axis=(1, 2)) for a in (0, 1) for b in (0, 1)]
    centre, pair, total = signal[:, 1, 1] > 2 * at, np.max(pairs, axis=0) > 4 * at, signal.sum(axis=(1, 2)) > 6 * at
    expected = rows(centre & pair & total)
    np.testing.assert_array_equal(kept(ds.photons.noise_cuts(2, noise)), expected)
    assert 0 < len(expected) < centre.sum()
    assert ds.photons.noise_cuts(2, 70.0).count() == ds.photons.noise_cuts(2, np.full_like(noise, 70)).count()


@pytest.mark.parametrize(("window", "factor"), [((3, 3), 3), ((5, 5), 5), ((3, 7), np.sqrt(21))])
def test_each_noise_cut_drops_a_cluster_exactly_at_its_limit(window, factor):
    signal = np.zeros((6, *window))
    cy, cx = window[0] // 2, window[1] // 2
    signal[:, cy, cx] = 1000
    signal[0, cy, cx], signal[0, 0, 0] = 10, 5000  # centre at 10: not above
    signal[1, cy, cx] = 19  # the largest 2×2 not above 20
    signal[1, 0, 0] = 0
    signal[1, cy, cx + 1] = 1
    signal[2, cy - 1 : cy + 1, cx - 1 : cx + 1] = 20  # 80 in the 2×2; the sum brought down to its limit
    signal[2, -1, -1] = 10 * factor - 80
    signal[3] = signal[2]
    signal[3, -1, -1] += 0.001
    ds = xr.Dataset(
        {
            "signal": (("cluster", "cluster_y", "cluster_x"), signal),
            "y": ("cluster", np.full(6, 5)),
            "x": ("cluster", np.full(6, 5)),
        }
    )
    np.testing.assert_array_equal(kept(ds.photons.noise_cuts(10, 1.0)), [3, 4, 5])


def test_the_noise_is_that_of_the_datasets_own_pedestal(stored, loaded, noise_map):
    with pytest.raises(ValueError, match=r"where its pedestal is stored; give noise=xr.open_zarr"):
        loaded.photons.noise_cuts(5)
    np.testing.assert_array_equal(kept(stored.photons.noise_cuts(3)), kept(loaded.photons.noise_cuts(3, noise_map)))
    some = stored.isel(cluster=slice(100, 5000))
    np.testing.assert_array_equal(some.photons.pixels_above(3), some.photons.pixels_above(3, noise_map))


def test_windows_over_the_edge_are_dropped(ds, loaded):
    y, x = loaded.y.values, loaded.x.values
    np.testing.assert_array_equal(kept(ds.photons.no_edges()), rows((y >= 1) & (y < 29) & (x >= 1) & (x < 49)))
    assert ds.drop_attrs().photons.no_edges((30, 50)).count() == ds.photons.no_edges().count()


def test_an_energy_window_takes_any_energy_and_unit(ds, loaded):
    total, centre = loaded.photons.energy().values, loaded.photons.energy("centre").values
    np.testing.assert_array_equal(kept(ds.photons.energy_window(780, 820)), rows((total >= 780) & (total < 820)))
    window = ds.photons.energy_window(100, 400, "centre")
    np.testing.assert_array_equal(kept(window), rows((centre >= 100) & (centre < 400)))
    in_keV = ds.photons.calibrated(100.0).energy_window(7.8, 8.2)
    np.testing.assert_array_equal(kept(in_keV), rows((total / 100 >= 7.8) & (total / 100 < 8.2)))
    assert in_keV.energy().max() < 8.2


def test_a_range_of_frames_is_a_dataset_of_these_frames(ds, loaded):
    photons = ds.photons.frame_range(120, 150)  # the archive's frames; the dataset begins at 100
    chosen = photons.dataset()
    inside = (loaded.frame_index.values >= 20) & (loaded.frame_index.values < 50)
    np.testing.assert_array_equal(chosen.signal, loaded.signal.values[inside])
    np.testing.assert_array_equal(chosen.frame_index, loaded.frame_index.values[inside] - 20)
    assert chosen.frame_index.dtype == np.uint32
    assert (chosen.sizes["frame"], chosen.attrs["first_frame"]) == (30, 120)
    np.testing.assert_array_equal(photons.rate(), loaded.n_clusters[20:50])
    np.testing.assert_array_equal(photons.rate().frame, np.arange(120, 150))
    assert photons.frame_range(0, 125).count() == loaded.n_clusters[20:25].sum()
    xr.testing.assert_equal(chosen.photons.rate(7), photons.rate(7))
    with pytest.raises(ValueError, match="Frames 0 to 90 hold none of the dataset's, which are 100 to 190"):
        ds.photons.frame_range(0, 90)


def test_a_range_of_frames_after_a_selection_of_ones_own(ds, loaded):
    some = ds.isel(cluster=slice(3, None, 3))
    photons = some.photons.roi(y=(0, 15)).frame_range(110, 120)
    frame, y = loaded.frame_index.values[3::3], loaded.y.values[3::3]
    inside = (frame >= 10) & (frame < 20) & (y < 15)
    assert photons.count() == inside.sum()
    np.testing.assert_array_equal(photons.rate(), np.bincount(frame[inside] - 10, minlength=10))


def test_two_photons_in_a_window_are_told_from_one():
    rng = np.random.default_rng(8)
    n = 4000
    edges = np.arange(-1.5, 2)

    def cloud(y, x):
        py, px = (np.diff(ndtr((edges[:, None] - at) / 0.25), axis=0).T for at in (y, x))
        return 800 * py[:, :, None] * px[:, None, :]

    one = cloud(*rng.uniform(-0.5, 0.5, (2, n))) + rng.normal(0, 15, (n, 3, 3))
    near = one + cloud(*rng.uniform(-0.9, 0.9, (2, n)))
    # A second one that falls just beyond the window's rim, on the other side of the central pixel.
    beyond = one + cloud(np.where(one[:, 0, 1] > one[:, 2, 1], 1.6, -1.6), rng.uniform(-0.5, 0.5, n))
    at = np.full(3 * n, 10)
    signal = np.concatenate([one, near, beyond])
    ds = xr.Dataset(
        {"signal": (("cluster", "cluster_y", "cluster_x"), signal), "y": ("cluster", at), "x": ("cluster", at)}
    )
    kept = ds.photons.calibrated(100.0).no_pile_up(8.0, noise=15.0).kept().values.reshape(3, n).mean(axis=1)
    assert kept[0] > 0.999
    assert kept[1] < 0.001
    by_energy = ds.photons.energy_window(0, 1200).kept().values.reshape(3, n).mean(axis=1)
    assert kept[2] < 0.8 * by_energy[2]  # the less the first one's own charge lies there, the less it shows


def test_filters_compose_and_are_applied_once(ds, loaded):
    photons = ds.photons.roi(x=(5, 45)).no_edges().energy_window(700, 900).where(ds.y % 2 == 0)
    y, x, total = loaded.y.values, loaded.x.values, loaded.photons.energy().values
    inside = (x >= 5) & (x < 45) & (y >= 1) & (y < 29) & (total >= 700) & (total < 900) & (y % 2 == 0)
    np.testing.assert_array_equal(kept(photons), rows(inside))
    assert (photons.kept().chunks is None) == (ds is loaded)
    chosen = loaded.isel(cluster=inside)
    xr.testing.assert_identical(photons.spectrum(40, (650, 950)), chosen.photons.spectrum(40, (650, 950)))
    xr.testing.assert_identical(photons.hit_map(), chosen.photons.hit_map())
    xr.testing.assert_identical(photons.rate(10), chosen.photons.rate(10))
    np.testing.assert_array_equal(photons.energy("centre"), chosen.photons.energy("centre"))
    assert photons.count() == inside.sum()
    assert ds.photons.count() == len(y)  # the accessor itself is as before


def test_the_dataset_of_a_selection_is_a_ragged_array_still(ds, loaded):
    loaded_with_digest = ds.assign_attrs(digest="of all")
    chosen = loaded_with_digest.photons.roi(y=(0, 10)).isolated(3).dataset()
    ends = np.cumsum(chosen.n_clusters.values)
    assert ends[-1] == chosen.sizes["cluster"]
    for i in (0, 17, 89):
        assert (chosen.frame_index[ends[i] - chosen.n_clusters.values[i] : ends[i]] == i).all()
    assert chosen.n_clusters.dtype == loaded.n_clusters.dtype
    assert "digest" not in chosen.attrs
    assert chosen.attrs["selection"] == "roi(y=(0, 10), x=None); isolated(3)"
    again = chosen.photons.energy_window(0, 800).dataset()
    assert again.attrs["selection"].endswith("isolated(3); energy_window(0, 800 ADU, sum)")
    assert (chosen.signal.chunks is None) == (ds is loaded)
    assert ds.photons.dataset() is ds


def test_an_empty_selection_and_an_empty_dataset_answer(make_photons):
    for ds in (make_photons(0), make_photons(1), make_photons(0).chunk(cluster=10)):
        nothing = ds.photons.where(ds.y > 99).no_edges().isolated(2).energy_window(0, 1).noise_cuts(5, 1.0)
        assert nothing.no_pile_up(1.0, noise=1.0).count() == 0
        assert nothing.spectrum().sum() == 0
        assert nothing.hit_map().sum() == 0
        assert nothing.dataset().sizes["cluster"] == 0
        assert ds.photons.frame_range(100, 190).count() == ds.sizes["cluster"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.roi(y=(5, 2)), r"y is \(5, 2\); it must be \(first, end\)"),
        (lambda p: p.roi(x=slice(0, 9, 2)), "step 1"),
        (lambda p: p.mask(np.ones((3, 3))), "must be bool or NeXus bits"),
        (lambda p: p.mask(np.ones((3, 3), bool)), r"mask has the shape \(3, 3\), and the detector"),
        (lambda p: p.noise_cuts(5, np.ones(4)), r"noise has the shape \(4,\)"),
        (lambda p: p.energy_window(5, 5), "the lower limit comes first"),
        (lambda p: p.where(np.ones(4, bool)), r"must be bool, one for each of 20000 clusters"),
        (lambda p: p.spectrum(regions=np.zeros((30, 50), int)), "every pixel is 0"),
        (lambda p: p.spectrum(regions=np.zeros((30, 50))), "must be whole numbers"),
        (lambda p: p.spectrum(regions=np.ones((30, 50), int), frames=2), "not both"),
        (lambda p: p.spectrum(frames=0), "at least 1"),
    ],
)
def test_filters_that_make_no_sense_are_refused_in_a_sentence(loaded, ask, message):
    with pytest.raises(ValueError, match=message) as caught:
        ask(loaded.photons)
    assert "\n" not in str(caught.value)


def test_spectra_of_regions_frames_and_pixels_add_up(ds, loaded, frames_and_shape):
    _, shape = frames_and_shape
    total, y, x, frame = (v.values for v in (loaded.photons.energy(), loaded.y, loaded.x, loaded.frame_index))
    regions = np.zeros(shape, int)
    regions[:10], regions[20:] = 7, 3
    found = ds.photons.spectrum(30, (700, 900), regions=regions)
    assert found.dims == ("region", "energy")
    np.testing.assert_array_equal(found.region, [3, 7])
    np.testing.assert_array_equal(found.sel(region=7), np.histogram(total[y < 10], 30, (700, 900))[0])
    found = ds.photons.roi(x=(0, 9)).spectrum(30, (700, 900), frames=40)
    np.testing.assert_array_equal(found.frame, [119.5, 159.5, 184.5])
    np.testing.assert_array_equal(found[2], np.histogram(total[(frame >= 80) & (x < 9)], 30, (700, 900))[0])
    pixels = ds.photons.pixel_spectra(200, (700, 900))
    assert pixels.sizes == {"y": 30, "x": 50, "energy": 200}
    np.testing.assert_array_equal(pixels.sum(("y", "x")), ds.photons.spectrum(200, (700, 900)))
    at = (y == 12) & (x == 13)
    np.testing.assert_array_equal(pixels.sel(y=12, x=13), np.histogram(total[at], 200, (700, 900))[0])
