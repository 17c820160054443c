import numpy as np
import pytest
import xarray as xr


def test_the_hit_map_counts_the_clusters_of_each_pixel(stored, loaded, frames_and_shape):
    _, shape = frames_and_shape
    expected = np.zeros(shape, np.int64)
    np.add.at(expected, (loaded.y.values, loaded.x.values), 1)
    hits = stored.photons.hit_map()
    np.testing.assert_array_equal(hits, expected)
    assert (hits.dims, hits.y.attrs["units"]) == (("y", "x"), "pixel")


def test_the_hit_map_needs_a_shape_that_holds_every_cluster(loaded):
    nameless = loaded.drop_attrs()
    with pytest.raises(ValueError, match="no attribute frame_shape"):
        nameless.photons.hit_map()
    assert nameless.photons.hit_map(shape=(40, 60)).shape == (40, 60)
    with pytest.raises(ValueError, match=r"beyond the shape \(30, 49\) of the map"):
        loaded.photons.hit_map(shape=(30, 49))


def test_the_rate_is_the_mean_over_each_group_of_frames(stored):
    counts = stored.n_clusters.values
    rate = stored.photons.rate(20)
    np.testing.assert_allclose(rate, [counts[a : a + 20].mean() for a in range(0, 90, 20)])
    np.testing.assert_array_equal(rate.frame, [109.5, 129.5, 149.5, 169.5, 184.5])
    np.testing.assert_array_equal(stored.photons.rate(), counts)


def test_frames_that_could_not_be_read_do_not_count_in_the_rate(loaded):
    status = np.zeros(90, np.uint8)
    status[:10], status[10] = 1, 2
    rate = loaded.assign(frame_status=("frame", status)).photons.rate(10)
    assert np.isnan(rate[0])
    assert rate[1] == loaded.n_clusters.values[11:20].mean()


def test_the_rate_of_a_selection_is_that_of_the_clusters_selected(stored):
    every_other = stored.isel(cluster=slice(None, None, 2))
    np.testing.assert_array_equal(every_other.photons.rate(), np.bincount(stored.frame_index.values[::2], minlength=90))
    with pytest.raises(ValueError, match="leave the dimension frame whole"):
        stored.isel(frame=slice(0, 5)).photons.rate()


def test_no_clusters_and_no_frames_give_empty_maps(make_photons):
    empty = make_photons(0)
    assert int(empty.photons.hit_map().sum()) == 0
    assert float(empty.photons.rate(50).sum()) == 0
    assert empty.isel(frame=slice(0, 0)).photons.rate(50).size == 0
    assert empty.photons.isolated(2).count() == 0


def test_a_dataset_that_lacks_the_variables_is_refused_by_their_names(loaded):
    other = xr.Dataset({"temperature": ("time", [1.0])})
    for ask in ("energy", "spectrum", "peak", "hit_map", "rate"):
        with pytest.raises(ValueError, match=r"This dataset lacks .*; give photon clusters"):
            getattr(other.photons, ask)()
    with pytest.raises(ValueError, match="lacks y, x;"):
        loaded.drop_vars(["x", "y"]).photons.isolated(1)
    with pytest.raises(ValueError, match="at least 1"):
        loaded.photons.rate(0)


def test_results_carry_what_a_plot_needs(stored):
    photons = stored.photons
    for result in (photons.spectrum(), photons.hit_map(), photons.rate(10)):
        assert result.name
        for array in (result, *result.coords.values()):
            assert array.attrs["long_name"]
            # xarray writes units in brackets beside the name, a 1 too.
            assert array.attrs.get("units", "none") not in ("", "1")


def test_they_plot(stored):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    line = stored.photons.spectrum().plot()
    assert line[0].axes.get_xlabel() == "cluster energy [ADU]"
    line[0].figure.clear()
    stored.photons.hit_map().plot()
