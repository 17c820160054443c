import numpy as np
import pytest
import xarray as xr
from scipy.optimize import curve_fit
from scipy.special import ndtr

import analysis
from analysis import KLines, fit_line, k_lines
from analysis.peaks import fit_peak_on_shelf

MU, SIGMA = 800.0, 36.0
COPPER = k_lines("Cu")


def draw(rng, n, step=0.0, tail=0.0, tail_length=60.0, ratio=0.0, sigma=SIGMA):
    """Energies of the photons of a peak with `n` clusters on average, made by their own recipe, photon by photon."""

    def line(n, position):
        lost = np.where(rng.random(n) < tail, rng.exponential(tail_length, n), 0)
        peak = position - lost + sigma * rng.standard_normal(n)
        on_shelf = rng.poisson(step * n)
        # A flat shelf from 0, smeared by the noise.
        return np.concatenate([peak, rng.uniform(0, position, on_shelf) + sigma * rng.standard_normal(on_shelf)])

    beta = MU * COPPER.k_beta_keV / COPPER.k_alpha_keV
    return np.concatenate([line(rng.poisson(n), MU), line(rng.poisson(ratio * n), beta)])


def as_spectrum(energies, low=300.0, high=1100.0, bins=160):
    counts, edges = np.histogram(energies, bins, (low, high))
    centres = xr.Variable("energy", (edges[1:] + edges[:-1]) / 2, {"units": "ADU", "long_name": "cluster energy"})
    return xr.DataArray(counts, coords={"energy": centres}, dims="energy", attrs={"long_name": "clusters a bin"})


def pulls(fit, **truth):
    return {name: float((fit[name] - value) / fit[f"{name}_error"]) for name, value in truth.items()}


@pytest.mark.parametrize(
    ("shape", "options", "truth"),
    [
        ("gaussian", {}, {}),
        ("step", {}, {"step": 0.4}),
        ("step_tail", {}, {"step": 0.4, "tail": 0.3, "tail_length": 60.0}),
        ("gaussian", {"lines": COPPER, "ratio": 0.13}, {}),
        ("step", {"lines": "Cu", "ratio": "fitted"}, {"step": 0.4, "ratio": 0.13}),
        ("step_tail", {"lines": "Cu", "ratio": 0.13}, {"step": 0.4, "tail": 0.3, "tail_length": 60.0}),
    ],
)
def test_what_a_peak_was_made_of_is_found_again_within_its_errors(shape, options, truth):
    ratio = 0.13 if options else 0.0
    parts = {name: truth[name] for name in ("step", "tail", "tail_length") if name in truth}
    energies = draw(np.random.default_rng(5), 60_000, ratio=ratio, **parts)
    fit = fit_line(as_spectrum(energies, bins=400), shape=shape, **options)
    found = pulls(fit, counts=60_000, position=MU, sigma=SIGMA, **truth)
    assert all(abs(pull) < 3.5 for pull in found.values()), found
    assert 0.7 < fit.deviance / fit.ndf < 1.4
    assert 0.7 < fit.chi2 / fit.ndf < 1.4
    assert fit.position_error < 0.8


@pytest.mark.parametrize("n", [40, 2000])
def test_the_errors_cover_the_truth_as_often_as_they_should(n):
    rng = np.random.default_rng(n)
    found = []
    for _ in range(150):
        energies = draw(rng, n, step=0.2, ratio=0.13)
        fit = fit_line(as_spectrum(energies, bins=80), "Cu", limits=(620, 1010), ratio=0.13)
        found.append([*pulls(fit, counts=n, position=MU, sigma=SIGMA).values(), float(fit.chi2 / fit.ndf)])
    found = np.array(found)
    # 150 draws of a normal variable have a mean within 0.29 and a deviation within 20 % of 1 (3.5 standard errors); the
    # width of a peak of 40 clusters is not quite normal.
    allowed = 0.29 if n > 100 else 0.45
    assert np.abs(found[:, :3].mean(0)).max() < allowed, found.mean(0)
    assert np.abs(found[:, :3].std(0) - 1).max() < 0.20, found.std(0)
    # The fit of few clusters adapts to them: a cluster a bin leaves chi²/ndf at 0.8.
    assert found[:, 3].mean() == pytest.approx(1, abs=0.05 if n > 100 else 0.25)


@pytest.mark.parametrize(("shape", "lines"), [("gaussian", None), ("step", "Cu"), ("step_tail", None)])
def test_values_and_covariance_are_those_of_scipy(shape, lines):
    # Where counts are weighted by what the fitted model expects, least squares and Poisson likelihood have one optimum.
    energies = draw(np.random.default_rng(3), 8000, step=0.3, tail=0.25, ratio=0.147 if lines else 0)
    spectrum = as_spectrum(energies, 500, 1000, 100)
    fit = fit_line(spectrum, lines, shape, limits=(500, 1000), background=shape == "gaussian")
    names = fit.parameter.values.tolist()
    edges = np.linspace(500, 1000, 101)
    places = [(1.0, 1.0)] if lines is None else [(1.0, 1.0), (COPPER.k_beta_keV / COPPER.k_alpha_keV, 0.147)]

    def below(energy, p, place):
        """Clusters below `energy`, from distributions alone: a Gaussian, one convolved with an exponential, a ramp."""
        position, sigma = p["position"] * place, p["sigma"]
        z = (energy - position) / sigma
        normal = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        length = p.get("tail_length", 50.0)
        lossy = ndtr(z) + np.exp((energy - position) / length + (sigma / length) ** 2 / 2) * ndtr(-z - sigma / length)
        ramp = sigma / position * (z * ndtr(-z) - normal)
        tail = p.get("tail", 0.0)
        return (1 - tail) * ndtr(z) + tail * lossy + p.get("step", 0.0) * ramp

    def model(_, *values):
        p = dict(zip(names, values, strict=True))
        peaks = sum(weight * p["counts"] * below(edges, p, place) for place, weight in places)
        return np.diff(peaks + p.get("background", 0.0) * edges)

    start = [float(fit[name]) for name in names]
    np.testing.assert_allclose(model(None, *start), fit.fitted, rtol=1e-9, atol=1e-9)
    values, covariance = curve_fit(
        model,
        fit.energy,
        spectrum.to_numpy(),
        p0=np.array(start) * 1.02,
        sigma=np.sqrt(fit.fitted),
        absolute_sigma=True,
        xtol=1e-12,
        ftol=1e-12,
    )
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(start - values), 3e-3 * errors)
    scale = np.outer(errors, errors)
    np.testing.assert_allclose(fit.covariance / scale, covariance / scale, atol=5e-3)
    for name, error in zip(names, errors, strict=True):
        assert float(fit[f"{name}_error"]) == pytest.approx(error, rel=5e-3)


def test_unresolved_k_beta_pulls_a_single_gaussian_and_not_the_pair():
    energies = draw(np.random.default_rng(8), 50_000, ratio=0.147)
    spectrum = as_spectrum(energies)
    single = fit_line(spectrum, shape="gaussian", limits=(700, 1000))
    pair = fit_line(spectrum, "Cu", shape="gaussian", limits=(700, 1000))
    assert abs(pair.position - MU) < 3 * pair.position_error
    assert single.position - MU > 10 * single.position_error
    assert single.deviance / single.ndf > 5 > 2 > pair.deviance / pair.ndf


def test_known_lines_give_gain_and_resolution():
    fit = fit_line(as_spectrum(draw(np.random.default_rng(1), 9000, ratio=0.147)), "Cu")
    assert float(fit.line_energy) == 8.041
    assert float(fit.gain) == pytest.approx(float(fit.position) / 8.041)
    assert float(fit.gain_error) == pytest.approx(float(fit.position_error) / 8.041)
    assert float(fit.resolution) == pytest.approx(2.35482 * SIGMA / (MU / 8041), rel=0.05)
    assert (fit.gain.attrs["units"], fit.resolution.attrs["units"]) == ("ADU/keV", "eV")
    assert fit.attrs["element"] == "Cu"
    assert all(fit[name].attrs["long_name"] for name in fit.data_vars)


def test_energies_in_kev_give_results_in_kev():
    spectrum = as_spectrum(draw(np.random.default_rng(1), 9000, ratio=0.147))
    in_kev = spectrum.assign_coords(energy=("energy", spectrum.energy.values / 100, {"units": "keV"}))
    with pytest.warns(analysis.UnitsWarning, match="in keV already, so the gain fitted is in keV/keV"):
        same = fit_line(in_kev, "Cu")
    fit = fit_line(spectrum, "Cu")
    assert float(same.position) == pytest.approx(float(fit.position) / 100, rel=1e-6)
    assert (same.position.attrs["units"], same.gain.attrs["units"]) == ("keV", "keV/keV")
    for wrong in (lambda: analysis.noise(xr.DataArray(18.0), same.gain), lambda: analysis.calibrate([fit, same])):
        with pytest.raises(ValueError, match="keV"):
            wrong()


@pytest.mark.parametrize(
    ("energies", "options", "message"),
    [
        ([], {}, "no clusters"),
        ([800.0], {}, "no peak between"),
        (np.arange(300, 1100, 0.5), {"limits": (400, 500)}, "no peak|no maximum"),
        (300 + 800 * np.sqrt(np.linspace(0, 1, 5000)), {}, "no peak"),
        ([800.0] * 9, {"limits": (900, 800)}, "at least three"),
        ([800.0] * 9, {"limits": (800, 811)}, "at least three"),
        ([800.0] * 9, {"shape": "lorentzian"}, "one of gaussian, step, step_tail"),
        ([800.0] * 9, {"lines": "Xx"}, "no K lines of 'Xx'"),
        ([800.0] * 9, {"lines": "Cu", "ratio": "free"}, "'known', 'fitted'"),
        ([800.0] * 9, {"lines": "Cu", "ratio": -1}, "from 0 on"),
    ],
)
def test_what_has_no_peak_or_makes_no_sense_is_refused(energies, options, message):
    with pytest.raises(ValueError, match=message):
        fit_line(as_spectrum(energies), **options)


def test_unequal_bins_are_refused(loaded):
    spectrum = loaded.photons.spectrum(bins=[0.0, 700.0, 800.0, 850.0, 2000.0])
    with pytest.raises(ValueError, match="unequal"):
        fit_line(spectrum)


def test_a_shelf_widens_the_peak_of_no_fit_with_a_shelf():
    energies = draw(np.random.default_rng(2), 30_000, step=4.0)
    assert float(fit_peak_on_shelf(as_spectrum(energies)).sigma) == pytest.approx(SIGMA, rel=0.06)
    gaussian = fit_line(as_spectrum(energies), shape="gaussian", limits=(700, 900))
    assert gaussian.sigma > 1.15 * SIGMA


def test_lines_of_ones_own_are_taken():
    own = KLines("Cu, filtered", 8.041, 8.9053, 0.02)
    fit = fit_line(as_spectrum(draw(np.random.default_rng(1), 20_000, ratio=0.02)), own)
    assert abs(fit.position - MU) < 3.5 * fit.position_error


def test_the_table_says_what_bearden_measured():
    assert k_lines("Mn").k_alpha_keV == pytest.approx((5.89875 + 0.5 * 5.88765) / 1.5, abs=1e-5)
    assert k_lines("Cu").k_alpha_keV == pytest.approx((8.04778 + 0.51 * 8.02783) / 1.51, abs=1e-4)
    assert k_lines("Mo").k_alpha_keV == pytest.approx((17.47934 + 0.52 * 17.3743) / 1.52, abs=1e-4)
    assert (k_lines("Mn").k_beta_keV, k_lines("Cu").k_beta_keV) == (6.49045, 8.9053)
