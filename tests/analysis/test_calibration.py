import numpy as np
import pytest
import xarray as xr
from scipy.optimize import curve_fit

from analysis import calibrate, noise

ENERGIES = np.array([4.5088, 5.89505, 8.041, 17.4434])
GAIN, OFFSET = 101.3, -7.5


def line(energy, position, error):
    attrs = {"units": "ADU"}
    return xr.Dataset(
        {
            "position": xr.DataArray(position, attrs=attrs)
            if np.ndim(position) == 0
            else (("y", "x"), position, attrs),
            "position_error": xr.DataArray(error) if np.ndim(error) == 0 else (("y", "x"), error),
            "line_energy": ((), energy),
        }
    )


def measured(rng, shape=()):
    """Lines with errors of their own, scattered by these."""
    errors = [np.full(shape, error) for error in (0.4, 1.0, 0.2, 2.0)]
    return [
        line(energy, OFFSET + GAIN * energy + error * rng.standard_normal(shape), error)
        for energy, error in zip(ENERGIES, errors, strict=True)
    ]


def test_a_straight_line_is_that_of_scipy():
    lines = measured(np.random.default_rng(4))
    found = calibrate(lines)
    position, error = (np.array([float(line[name]) for line in lines]) for name in ("position", "position_error"))
    values, covariance = curve_fit(lambda e, g, o: g * e + o, ENERGIES, position, sigma=error, absolute_sigma=True)
    assert float(found.gain) == pytest.approx(values[0], rel=1e-7)
    assert float(found.offset) == pytest.approx(values[1], rel=1e-5)
    assert float(found.gain_error) == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-5)
    assert float(found.offset_error) == pytest.approx(covariance[1, 1] ** 0.5, rel=1e-5)
    assert float(found.gain_offset_covariance) == pytest.approx(covariance[0, 1], rel=1e-5)
    residual = position - values[0] * ENERGIES - values[1]
    np.testing.assert_allclose(found.residual, residual, atol=1e-5)
    assert float(found.chi2) == pytest.approx(((residual / error) ** 2).sum(), rel=1e-5)
    assert int(found.ndf) == 2
    assert (found.gain.attrs["units"], found.offset.attrs["units"]) == ("ADU/keV", "ADU")


def test_errors_of_maps_cover_the_truth():
    found = calibrate(measured(np.random.default_rng(9), (30, 30)))
    for name, true in (("gain", GAIN), ("offset", OFFSET)):
        pull = ((found[name] - true) / found[f"{name}_error"]).to_numpy()
        assert abs(pull.mean()) < 3.5 / 30
        assert pull.std() == pytest.approx(1, abs=3.5 / 42)
    assert float(found.chi2.mean()) == pytest.approx(2, abs=3.5 * 2 / 30)


def test_a_pixel_without_some_lines_uses_the_others_and_without_two_has_none():
    lines = measured(np.random.default_rng(9), (3, 4))
    lines[0]["position"][0, 0] = np.nan
    for one in lines[1:]:
        one["position"][1, 1] = np.nan
    found = calibrate(lines)
    assert found.ndf[0, 0] == 1
    assert np.isfinite(found.gain[0, 0])
    assert np.isnan(found.gain[1, 1])
    assert np.isnan(found.offset_error[1, 1])
    assert np.isfinite(found.gain).sum() == 11


def test_two_lines_leave_no_freedom():
    found = calibrate([line(5.0, 500.0, 1.0), line(8.0, 830.0, 1.0)])
    assert (float(found.gain), int(found.ndf)) == (pytest.approx(110), 0)
    assert float(found.offset) == pytest.approx(-50)
    assert float(found.chi2) == pytest.approx(0, abs=1e-15)


def test_what_gives_no_straight_line_is_refused():
    with pytest.raises(ValueError, match="at least two energies, and 1 came"):
        calibrate([line(5.0, 500.0, 1.0), line(5.0, 501.0, 1.0)])
    with pytest.raises(ValueError, match="errors above 0"):
        calibrate([line(5.0, 500.0, 0.0), line(8.0, 830.0, 1.0)])


def test_noise_is_told_in_adu_ev_and_electrons():
    adu = xr.DataArray(np.array([[18.0, 36.2]]), dims=("y", "x"))
    found = noise(adu, 100.0)
    np.testing.assert_allclose(found.noise_ev, [[180, 362]])
    np.testing.assert_allclose(found.noise_electrons, [[180 / 3.62, 100]])
    assert found.noise_electrons.attrs["units"] == "electron"
    gains = xr.DataArray(np.array([[100.0, np.nan]]), dims=("y", "x"))
    np.testing.assert_allclose(noise(adu, gains, 3.65).noise_electrons, [[180 / 3.65, np.nan]])
    with pytest.raises(ValueError, match="above 0"):
        noise(adu, 100.0, 0)
