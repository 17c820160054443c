"""aare, the detector group's own library, computes the same; where it does not, this says how it differs."""

import numpy as np
import pytest

aare = pytest.importorskip("aare")

FUNCTIONS = {
    "2x2": "calculate_eta2",
    "full_2x2": "calculate_full_eta2",
    "3x3": "calculate_eta3",
    "cross_3x3": "calculate_cross_eta3",
}


def vector(ds):
    rows, columns = ds.sizes["cluster_y"], ds.sizes["cluster_x"]
    suffix = f"{columns}x{rows}{'i' if ds.signal.dtype.kind == 'i' else 'f'}"
    found, cluster = getattr(aare._aare, f"ClusterVector_Cluster{suffix}")(), getattr(aare._aare, f"Cluster{suffix}")
    for window, y, x in zip(ds.signal.values, ds.y.values, ds.x.values, strict=True):
        found.push_back(cluster(int(x), int(y), window.ravel()))
    return found


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize(("kind", "side"), [(kind, 3) for kind in FUNCTIONS] + [("2x2", 5), ("full_2x2", 9)])
def test_every_eta_is_aares(make_clouds, kind, side, dtype):
    rng = np.random.default_rng(1)
    ds = make_clouds(rng.uniform(5, 19, 2000), rng.uniform(5, 19, 2000), window=(side, side), dtype=dtype)
    theirs, ours = getattr(aare, FUNCTIONS[kind])(vector(ds)), ds.photons.eta(kind)
    # Of float32 clusters aare adds up in float32.
    rounding = {"rtol": 0, "atol": 0 if dtype == "int32" else 1e-6}
    np.testing.assert_allclose(theirs["x"], ours.eta_x, **rounding)
    np.testing.assert_allclose(theirs["y"], ours.eta_y, **rounding)
    np.testing.assert_allclose(theirs["sum"], ours.energy, rtol=1e-6)
    if side == 3 and "2x2" in kind:
        np.testing.assert_array_equal(theirs["c"], ours.corner)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_interpolation_is_aares_within_a_bin(flat_field, known, kind):
    bins, limits = 100, (-0.5, 1.5) if "2x2" in kind else (-1.0, 1.0)
    histogram = flat_field.photons.eta_histogram(kind, bins, limits, energy_bins=[-1e6, 1e6])
    grid = np.linspace(*limits, bins + 1)
    theirs = aare.Interpolator(grid, grid, np.array([-1e6, 1e6]))
    theirs.rosenblatttransform(np.ascontiguousarray(histogram.values.transpose(2, 1, 0).astype(float)))
    ds = known[0].isel(cluster=slice(0, 2000))
    suffix = {"2x2": "", "full_2x2": "_full_eta2", "3x3": "_eta3", "cross_3x3": "_cross_eta3"}[kind]
    places = getattr(theirs, f"interpolate{suffix}")(vector(ds))
    interpolation = flat_field.photons.interpolation(kind, bins=bins)
    ours, eta = ds.photons.positions(interpolation), ds.photons.eta(kind)
    # aare's pixel x covers x to x + 1, ours x ± ½. aare takes the distribution at the end of a bin, we go on within it.
    at = np.clip(np.searchsorted(grid, eta.eta_x.values) - 1, 0, bins - 1)
    begin, end = interpolation.u[0, at], interpolation.u[0, at + 1]
    behind = places["x"] - 0.5 - ours.x.values
    assert (behind > -1e-9).all()
    assert (behind < end - begin + 1e-9).all()
    # Of eta_y aare has a distribution for every bin of eta_x, we for groups of bins with enough photons.
    behind = places["y"] - 0.5 - ours.y.values
    assert abs(np.median(behind)) < 0.02
    assert np.std(behind) < 0.04


def test_the_distributions_are_aares(flat_field):
    histogram = flat_field.photons.eta_histogram("2x2", 40, (-0.5, 1.5), energy_bins=[-1e6, 1e6])
    cube = histogram.values.transpose(2, 1, 0).astype(float)
    grid = np.linspace(-0.5, 1.5, 41)
    theirs = aare.Interpolator(grid, grid, np.array([-1e6, 1e6]))
    theirs.rosenblatttransform(np.ascontiguousarray(cube))
    u = flat_field.photons.interpolation("2x2", bins=40).u[0]
    np.testing.assert_allclose(theirs.get_ietax()[:, 0, 0], u[1:], atol=1e-14)
