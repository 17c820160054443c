import numpy as np
import pytest
import xarray as xr

import analysis
from analysis import fit_line, gain_map

COPPER = analysis.k_lines("Cu")
SHAPE, GAIN, NOISE_KEV = (20, 30), 100.0, 0.4
BINS = np.linspace(500, 1100, 76)


def clusters_of_pixels(mean, gain, step=0.15, seed=6):
    """The energies (ADU) and pixels of copper photons: `mean` a pixel in Kα, of which some lost charge to a shelf."""
    rng = np.random.default_rng(seed)
    n_alpha = rng.poisson(mean, gain.shape)
    parts = []
    for n, kev in ((n_alpha, COPPER.k_alpha_keV), (rng.poisson(0.147 * n_alpha), COPPER.k_beta_keV)):
        for count, highest in ((n, False), (rng.poisson(step * n), True)):
            pixel = np.repeat(np.arange(gain.size), count.ravel())
            deposited = rng.uniform(0, kev, len(pixel)) if highest else np.full(len(pixel), kev)
            smeared = deposited + NOISE_KEV * rng.standard_normal(len(pixel))
            parts.append(np.stack([pixel, gain.ravel()[pixel] * smeared]))
    return np.concatenate(parts, axis=1)


def as_spectra(clusters, shape=SHAPE):
    pixel, energy = clusters
    counts, *_ = np.histogram2d(pixel, energy, (np.arange(shape[0] * shape[1] + 1) - 0.5, BINS))
    energy = ("energy", (BINS[1:] + BINS[:-1]) / 2, {"units": "ADU"})
    coords = {"y": np.arange(shape[0]), "x": np.arange(shape[1]), "energy": energy}
    return xr.DataArray(counts.reshape(*shape, -1).astype(np.int64), coords, ("y", "x", "energy"))


def true_gains(spread=1.5, seed=1):
    return np.random.default_rng(seed).normal(GAIN, spread, SHAPE)


@pytest.mark.parametrize("mean", [60, 1000])
def test_the_gain_of_every_pixel_is_found_within_its_error(mean):
    gain = true_gains()
    found = gain_map(as_spectra(clusters_of_pixels(mean, gain)), "Cu")
    assert (found.flag == 0).mean() > 0.99
    pull = ((found.gain - gain) / found.gain_error).to_numpy()
    pull = pull[np.isfinite(pull)]
    # 600 draws of a normal variable have a mean within 0.15 and a deviation within 10 % of 1 (3.5 standard errors).
    assert abs(pull.mean()) < 0.15
    assert pull.std() == pytest.approx(1, abs=0.10)
    # The fit of few clusters adapts to them: one in a bin leaves chi²/ndf at 0.9.
    assert float(found.chi2.mean() / found.ndf) == pytest.approx(1, abs=0.05 if mean > 500 else 0.12)
    assert float(found.resolution.mean()) == pytest.approx(2.3548 * 1000 * NOISE_KEV, rel=0.04)
    assert float(found.detector_gain) == pytest.approx(GAIN, rel=0.01)
    # The error of the mean of n draws of deviation σ is σ/√n; the shelf takes some, Kβ gives some.
    expected = GAIN * NOISE_KEV / COPPER.k_alpha_keV / np.sqrt(mean)
    assert float(found.gain_error.median()) == pytest.approx(expected, rel=0.2)


def test_pixels_far_from_the_others_are_found_too():
    gain = true_gains(0.5)
    gain[3, 4], gain[7, 8] = 91, 110
    found = gain_map(as_spectra(clusters_of_pixels(400, gain)), "Cu", limits=(620, 1080))
    for pixel, true in (((3, 4), 91), ((7, 8), 110)):
        assert found.flag[pixel] == 0
        assert abs(found.gain[pixel] - true) < 4 * found.gain_error[pixel]


def test_what_a_pixel_cant_tell_is_flagged_and_has_no_gain():
    gain = true_gains()
    spectra = as_spectra(clusters_of_pixels(300, gain))
    energy = spectra.energy.to_numpy()
    spectra[0, 0] = 0
    spectra[0, 1] = np.where(np.arange(len(energy)) % 9 == 0, 1, 0)  # a handful
    spectra[0, 2] = 300 * np.exp((500 - energy) / 60)  # a peak out of sight below
    spectra[0, 3] = np.where(np.arange(len(energy)) == 40, 300, 0)  # all in one bin
    found = gain_map(spectra, "Cu", limits=(620, 1050))
    meanings = found.flag.attrs["flag_meanings"].split()
    said = [meanings[found.flag.attrs["flag_values"].index(flag)] for flag in found.flag[0, :4].values.tolist()]
    assert said[:2] == ["too_few_clusters"] * 2
    assert said[2] in ("at_a_limit", "not_converged")
    assert said[3] == "at_a_limit"
    for name in ("gain", "gain_error", "position", "sigma", "chi2"):
        assert np.isnan(found[name][0, :4]).all()
        assert np.isfinite(found[name].where(found.flag == 0, drop=True)[1:]).all()


def test_a_pixel_gets_what_a_fit_of_its_spectrum_alone_gives():
    spectra = as_spectra(clusters_of_pixels(2000, true_gains()))
    limits = (600, 1050)
    free = ("counts", "position", "sigma", "step")
    found = gain_map(spectra, "Cu", limits=limits, free=free)
    for pixel in ((0, 0), (19, 29), (5, 7)):
        alone = fit_line(spectra[pixel], "Cu", limits=limits)
        for name in (*free, "gain"):
            error = float(alone[f"{name}_error"])
            assert float(found[name][pixel]) == pytest.approx(float(alone[name]), abs=3e-3 * error), name
            assert float(found[f"{name}_error"][pixel]) == pytest.approx(error, rel=3e-3), name


def test_width_of_the_whole_detector_can_be_taken_for_pixels_of_few_clusters():
    gain = true_gains(0.3)
    found = gain_map(as_spectra(clusters_of_pixels(25, gain)), "Cu", free=("counts", "position"), min_clusters=10)
    assert found.sigma.dims == ()
    pull = ((found.gain - gain) / found.gain_error).to_numpy()
    assert np.nanstd(pull) == pytest.approx(1, abs=0.12)
    assert (found.flag == 0).mean() > 0.99


def test_the_accessor_gives_the_map_of_a_stored_dataset_and_of_a_selection(stored, loaded):
    lazy = stored.photons.gain_map("Cu", bins=60, range=(600, 1000), min_clusters=5, shape="gaussian")
    eager = loaded.photons.gain_map("Cu", bins=60, range=(600, 1000), min_clusters=5, shape="gaussian")
    xr.testing.assert_identical(lazy, eager)
    assert lazy.gain.sizes == {"y": 30, "x": 50}
    part = stored.photons.roi(y=(0, 10)).gain_map("Cu", bins=60, range=(600, 1000), min_clusters=5, shape="gaussian")
    assert (part.flag[10:] == 1).all()
    # The photons of this dataset all have 804.8 ADU; there is no Kβ among them.
    own = analysis.KLines("one line", 8.048, 100.0, 0.0)
    whole = stored.photons.fit_line(own, bins=200, range=(600, 1000), shape="gaussian")
    assert abs(float(whole.gain) - 100) < 4 * float(whole.gain_error)


def test_the_map_calibrates_energies(stored):
    gains = stored.photons.gain_map("Cu", bins=60, range=(600, 1000), min_clusters=5, shape="gaussian")
    spectrum = stored.photons.calibrated(gains.gain).spectrum(bins=200, range=(6, 10))
    assert spectrum.energy.attrs["units"] == "keV"
    assert float(fit_line(spectrum, shape="gaussian").position) == pytest.approx(8.04, abs=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lines": "Xx"}, "no K lines"),
        ({"free": ("counts", "tail")}, "tail can't be free"),
        ({"free": ("position",)}, "counts and position must be free"),
        ({"limits": (500, 510)}, "at least three"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    spectra = as_spectra(clusters_of_pixels(30, true_gains()))
    with pytest.raises(ValueError, match=message):
        gain_map(spectra, **({"lines": "Cu"} | options))


def test_a_detector_without_clusters_is_refused_in_words():
    spectra = 0 * as_spectra(clusters_of_pixels(30, true_gains()))
    with pytest.raises(ValueError, match="no clusters in them"):
        gain_map(spectra, "Cu")
    with pytest.raises(ValueError, match="must be y, x, energy"):
        gain_map(spectra.sum("x"), "Cu")


def test_one_pixel_with_clusters_is_enough():
    gain = true_gains()
    spectra = as_spectra(clusters_of_pixels(900, gain))
    spectra = spectra.where((spectra.y == 4) & (spectra.x == 5), 0)
    found = gain_map(spectra, "Cu")
    assert int((found.flag == 0).sum()) == 1
    assert abs(found.gain[4, 5] - gain[4, 5]) < 4 * found.gain_error[4, 5]
