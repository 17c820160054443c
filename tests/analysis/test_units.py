"""Units: told where energies are plainly in the other one, and not shown where there are none."""

import warnings

import numpy as np
import pytest
import xarray as xr

import analysis


@pytest.fixture(params=["eager", "lazy"])
def ds(request, loaded, stored):
    return loaded if request.param == "eager" else stored


def test_limits_in_the_other_unit_are_told(ds):
    with pytest.warns(analysis.UnitsWarning, match=r"energy_window\(7, 9\) is in ADU here, and clusters have about 80"):
        assert ds.photons.energy_window(7, 9).calibrated(100.0).count() == 0
    with pytest.warns(
        analysis.UnitsWarning, match=r"no_pile_up\(8\.05\) is in ADU here.*put calibrated\(gain\) before"
    ):
        ds.photons.no_pile_up(8.05, noise=12.0)
    in_kev = ds.photons.calibrated(100.0)
    with pytest.warns(analysis.UnitsWarning, match=r"is in keV here, and clusters have about 8\.0. keV: put it before"):
        in_kev.energy_window(700, 900)
    with pytest.warns(analysis.UnitsWarning, match=r"no_pile_up\(805\) is in keV"):
        in_kev.no_pile_up(805, noise=12.0)
    with pytest.warns(analysis.UnitsWarning, match="none of 20,000 clusters has 7 to 9 ADU: energy_bins are in ADU"):
        in_kev.eta_histogram(bins=10, energy_bins=[7, 9])


def test_windows_that_may_be_meant_are_not_warned_of(ds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for low, high in ((-200, 10), (300, 400), (2000, 3000), (0, np.inf), (-np.inf, 790)):
            ds.photons.energy_window(low, high)
            ds.photons.calibrated(100.0).energy_window(low / 100, high / 100)
        ds.photons.roi(y=(0, 5)).energy_window(0, 300)
        ds.isel(cluster=slice(0, 5)).photons.energy_window(0, 1)  # too few to tell
        # Clusters of a threshold, thinly, and few photons: 0 to 100 ADU is no mistake.
        weak = ds.assign(signal=ds.signal // 10)
        weak.photons.energy_window(10, 20)


def test_gains_in_kev_per_kev_go_no_further(ds):
    with pytest.warns(analysis.UnitsWarning, match=r"in keV already.* fit the clusters before calibrated\(\)"):
        fit = ds.photons.calibrated(100.0).fit_line("Cu", bins=200, range=(6, 10), shape="gaussian")
    assert float(fit.gain) == pytest.approx(1, abs=0.02)
    with pytest.raises(ValueError, match="gain is in keV/keV, as fitted to calibrated clusters"):
        ds.photons.calibrated(fit.gain)


def test_no_axis_shows_a_unit_where_there_is_none(stored):
    photons = stored.photons
    results = [
        photons.rate(10), photons.multiplicity(5, 12.0), photons.eta(), photons.eta_histogram(bins=10),
        photons.corner(),
        photons.spectrum(20, (700, 900), frames=30), photons.spectrum(20, (700, 900), regions=np.ones((30, 50), int)),
        photons.gain_map("Cu", bins=40, range=(600, 1000), min_clusters=5, shape="gaussian"),
        photons.fit_line("Cu", bins=60, range=(600, 1000)), stored,
    ]  # fmt: skip
    for result in results:
        table = result if isinstance(result, xr.Dataset) else result.to_dataset(name="it")
        for name, variable in table.variables.items():
            assert variable.attrs.get("units", "none") not in ("", "1"), (result.name, name)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = photons.rate(10).plot()[0].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("frame", "clusters a frame [count]")
    axes.figure.clear()
