import numpy as np
import pytest
import xarray as xr

KINDS = ["2x2", "full_2x2", "3x3", "cross_3x3"]


def one(window, dtype="int32"):
    window = np.asarray(window, dtype)[np.newaxis]
    return xr.Dataset({"signal": (("cluster", "cluster_y", "cluster_x"), window)})


def test_each_eta_is_the_share_that_its_formula_says():
    ds = one([[10, 21, 32], [43, 504, 65], [76, 87, 98]])  # the largest 2×2: 504 65 87 98
    eta = ds.photons.eta("2x2")
    assert (eta.eta_x, eta.eta_y, eta.energy) == (65 / (504 + 65), 87 / (504 + 87), 754)
    assert eta.corner.attrs["flag_meanings"].split()[int(eta.corner[0])] == "high_y_high_x"
    eta = ds.photons.eta("full_2x2")
    assert (eta.eta_x, eta.eta_y) == ((65 + 98) / 754, (87 + 98) / 754)
    eta = ds.photons.eta("3x3")
    assert (eta.eta_x, eta.eta_y, eta.energy) == ((195 - 129) / 936, (261 - 63) / 936, 936)
    eta = ds.photons.eta("cross_3x3")
    assert (eta.eta_x, eta.eta_y) == ((65 - 43) / 612, (87 - 21) / 612)
    assert "corner" not in eta


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("window", "dtype"), [((3, 3), "int32"), ((3, 7), "float32"), ((9, 9), "int32")])
def test_larger_windows_have_the_eta_of_their_middle_lazy_or_not(make_clouds, kind, window, dtype):
    rng = np.random.default_rng(4)
    ds = make_clouds(rng.uniform(4, 9, 300), rng.uniform(4, 9, 300), window=window, dtype=dtype)
    half_y, half_x = window[0] // 2, window[1] // 2
    middle = ds.isel(cluster_y=slice(half_y - 1, half_y + 2), cluster_x=slice(half_x - 1, half_x + 2))
    found = ds.photons.eta(kind)
    xr.testing.assert_identical(found, middle.photons.eta(kind))
    lazy = ds.chunk(cluster=37).photons.eta(kind)
    assert lazy.chunks
    xr.testing.assert_identical(lazy.compute(), found)


@pytest.mark.parametrize("kind", KINDS)
def test_mirrored_windows_have_mirrored_etas(make_clouds, kind):
    rng = np.random.default_rng(5)
    ds = make_clouds(rng.uniform(4, 9, 200), rng.uniform(4, 9, 200))
    turned = ds.assign(signal=ds.signal[:, ::-1, :].transpose("cluster", "cluster_y", "cluster_x"))
    one, other = ds.photons.eta(kind), turned.photons.eta(kind)
    total = 1 if kind.endswith("2x2") else 0
    np.testing.assert_allclose(one.eta_y + other.eta_y, total, atol=1e-12)
    np.testing.assert_allclose(one.eta_x, other.eta_x, atol=1e-12)


def test_pixels_that_add_up_to_nothing_have_no_eta():
    zero = one(np.zeros((3, 3)))
    for kind in KINDS:
        assert np.isnan(zero.photons.eta(kind).eta_x).all()
        assert zero.photons.eta_histogram(kind).attrs["outside"] == 1


@pytest.mark.parametrize("rows", [None, 41])
def test_the_histogram_of_eta_counts_every_cluster_once(make_clouds, rows):
    rng = np.random.default_rng(6)
    ds = make_clouds(rng.uniform(4, 9, 500), rng.uniform(4, 9, 500))
    eta = ds.photons.eta("3x3")
    photons = (ds if rows is None else ds.chunk(cluster=rows)).photons
    edges = np.linspace(-0.2, 0.2, 11)
    inside = [np.clip(values, -0.1999, 0.1999) for values in (eta.eta_y, eta.eta_x)]
    found = photons.eta_histogram("3x3", 10, (-0.2, 0.2))
    np.testing.assert_array_equal(found, np.histogram2d(*inside, bins=(edges, edges))[0])
    assert found.attrs["outside"] == 0
    cube = photons.eta_histogram("3x3", 10, (-0.2, 0.2), energy_bins=[700, 800, 850])
    assert cube.dims == ("energy", "eta_y", "eta_x")
    bright = (eta.energy >= 800) & (eta.energy < 850)
    np.testing.assert_array_equal(cube[1], np.histogram2d(*(v[bright] for v in inside), bins=(edges, edges))[0])
    assert cube.sum() + cube.attrs["outside"] == 500
    left = photons.where(ds.x < 6).eta_histogram("3x3", 10, (-0.2, 0.2))
    np.testing.assert_array_equal(left, np.histogram2d(*(v[ds.x < 6] for v in inside), bins=(edges, edges))[0])
    for axis in (found, found.eta_x, found.eta_y):
        assert axis.attrs["long_name"]
    assert (found.attrs["units"], found.eta_x.attrs.get("units")) == ("count", None)


def test_no_clusters_have_no_etas(make_photons):
    empty = make_photons(0)
    for ds in (empty, empty.chunk(cluster=1)):
        assert ds.photons.eta().sizes["cluster"] == 0
        assert ds.photons.eta_histogram().sum() == 0
        with pytest.raises(ValueError, match="No cluster to learn from"):
            ds.photons.interpolation()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.eta("4x4"), "must be one of 2x2, full_2x2, 3x3, cross_3x3"),
        (lambda p: p.eta_histogram(bins=0), "bins is 0; it must be at least 1"),
        (lambda p: p.eta_histogram(range=(1, 0)), "the lower one first"),
        (lambda p: p.eta_histogram(energy_bins=[5]), "two edges in ascending order"),
        (lambda p: p.interpolation(method="guess"), "must be one of marginal, rosenblatt"),
        (lambda p: p.interpolation(energy_bins=[0, 1, 2000]), "0 to 1 ADU; choose other energy_bins"),
        (lambda p: p.super_resolved(p.interpolation(bins=20), 0), "factor is 0"),
        (lambda p: type(p.interpolation(bins=20)).of(p.spectrum()), "no histogram of eta"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(loaded, ask, message):
    with pytest.raises(ValueError, match=message) as caught:
        ask(loaded.photons)
    assert "\n" not in str(caught.value)


def test_a_line_of_pixels_has_no_eta():
    with pytest.raises(ValueError, match="eta needs at least 3×3"):
        one(np.ones((1, 3))).photons.eta()
