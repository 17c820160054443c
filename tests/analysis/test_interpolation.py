import numpy as np
import pytest
import xarray as xr

from analysis import Interpolation

KINDS = ["2x2", "full_2x2", "3x3", "cross_3x3"]
METHODS = ["marginal", "rosenblatt"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_photons_are_put_where_they_fell(flat_field, known, kind, method):
    ds, y, x = known
    found = ds.photons.positions(flat_field.photons.interpolation(kind, method))
    shared = ds.photons.pixels_above(5, 15.0).values >= 2
    assert shared.mean() > 0.8
    for at, truth in ((found.y.values, y), (found.x.values, x)):
        assert np.sqrt(np.mean((at - truth)[shared] ** 2)) < (0.08 if kind == "3x3" else 0.06)
        assert abs(np.mean((at - truth)[shared])) < 0.005
    centres = np.sqrt(np.mean((ds.x.values - x)[shared] ** 2))
    assert centres > 0.25  # what is known without interpolation


def flatness(image, factor):
    """χ² a degree of freedom of the counts in the parts of a pixel, summed over the pixels inside."""
    inside = image.values[3 * factor : -3 * factor, 3 * factor : -3 * factor].astype(float)
    folded = inside.reshape(inside.shape[0] // factor, factor, -1, factor).sum(axis=(0, 2))
    return ((folded - folded.mean()) ** 2 / folded.mean()).sum() / (factor**2 - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flat_field_stays_flat(flat_field, known, kind):
    image = known[0].photons.super_resolved(flat_field.photons.interpolation(kind), factor=6)
    assert image.shape == (24 * 6, 30 * 6)
    assert int(image.sum()) + image.attrs["outside"] == 60_000
    # Poisson counts have 1 ± 0.24; what was learned from five times as many photons has noise of its own, 0.2.
    assert flatness(image, 6) < 1.2 + 4 * 0.24


def test_only_the_conditional_distribution_keeps_narrow_clouds_flat(make_clouds):
    rng = np.random.default_rng(9)
    narrow = make_clouds(*rng.uniform(2.5, 20.5, (2, 200_000)), sigma=0.15)
    chi2 = {
        method: flatness(narrow.photons.super_resolved(narrow.photons.interpolation("cross_3x3", method), 6), 6)
        for method in METHODS
    }
    assert chi2["rosenblatt"] < 3 < 9 < chi2["marginal"]


def test_an_edge_sharpens(flat_field, make_clouds):
    rng = np.random.default_rng(7)
    n, edge = 60_000, 12.3
    ds = make_clouds(rng.uniform(3, 20, n), rng.uniform(6, edge, n), seed=7)
    image = ds.photons.super_resolved(flat_field.photons.interpolation(), factor=10)
    profile = image.sum("y").sel(x=slice(9, 15)) / float(image.sum("y").sel(x=slice(8, 11)).mean())
    falls = [float(profile.x[np.flatnonzero(profile.values > level)[-1]]) for level in (0.9, 0.5, 0.1)]
    assert abs(falls[1] - edge) < 0.1
    assert falls[2] - falls[0] < 0.25
    assert image.x.attrs["units"] == "pixel"


def test_lazy_blocks_give_the_same_positions_and_image(flat_field, known):
    ds = known[0].isel(cluster=slice(0, 5000))
    lazy = ds.chunk(cluster=777)
    interpolation = lazy.photons.interpolation("2x2", energy_bins=[0, 700, 1000], bins=60)
    same = ds.photons.interpolation("2x2", energy_bins=[0, 700, 1000], bins=60)
    np.testing.assert_array_equal(interpolation.v, same.v)
    found = lazy.photons.positions(interpolation)
    assert found.chunks
    xr.testing.assert_identical(found.compute(), ds.photons.positions(same))
    xr.testing.assert_identical(lazy.photons.super_resolved(same, 4), ds.photons.super_resolved(same, 4))
    half = lazy.photons.roi(x=(0, 15))
    chosen = half.dataset()
    xr.testing.assert_identical(half.super_resolved(same, 4), chosen.photons.super_resolved(same, 4))
    np.testing.assert_array_equal(half.positions(same).x, chosen.photons.positions(same).x)


def test_each_energy_has_distributions_of_its_own_and_others_no_place(make_clouds):
    rng = np.random.default_rng(3)
    places = rng.uniform(2.5, 20.5, (2, 40_000))
    faint = make_clouds(*places, noise=15.0)
    faint = faint.assign(signal=(faint.signal * 0.4).astype("float32"))
    bright = make_clouds(*places, noise=15.0, seed=12, dtype="float32")
    both = xr.concat([faint, bright], "cluster", join="override", combine_attrs="override")
    edges = [250, 380, 700, 900]
    with pytest.raises(ValueError, match="380 to 700 ADU"):
        both.photons.energy_window(0, 340).interpolation(energy_bins=edges)
    apart = both.photons.interpolation(energy_bins=[250, 600, 900])
    alone = bright.photons.interpolation(energy_bins=[600, 900])
    found = bright.photons.positions(apart)
    xr.testing.assert_allclose(found.where(bright.photons.eta().energy >= 600), bright.photons.positions(alone))
    image = both.photons.super_resolved(alone, 2)
    assert image.attrs["outside"] == int((~(both.photons.eta().energy >= 600)).sum()) + int(
        (both.photons.eta().energy >= 900).sum()
    )
    assert np.isnan(faint.photons.positions(alone).x).all()


def test_an_interpolation_comes_from_a_histogram_that_was_kept(flat_field, tmp_path):
    histogram = flat_field.photons.eta_histogram("2x2", 50, energy_bins=[0, 2000])
    histogram.to_netcdf(tmp_path / "eta.nc", engine="scipy")
    with xr.open_dataarray(tmp_path / "eta.nc", engine="scipy") as kept:
        again = Interpolation.of(kept.load())
    first = Interpolation.of(histogram)
    np.testing.assert_array_equal(again.u, first.u)
    np.testing.assert_array_equal(again.energy_edges, first.energy_edges)
    assert again.limits == first.limits
