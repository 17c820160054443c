"""Simulated frames are what their parameters and their truth say."""

import math
import pickle

import numpy as np
import pytest
import zarr

from finder import FinderParameters, Pedestal, open_finder
from frame_archive import FrameArchive
from frame_archive.exposure import expose
from frame_archive.simulated_archive import SimulatedArchive
from frame_archive.simulation import DEAD, HOT, K_ALPHA_KEV, K_BETA_KEV, SimulatedDetector

QUIET = {"noise": 0.0, "gain_spread": 0.0, "pedestal_spread": 0.0, "bad_pixels": 0}


def exposed(shape, x, y, energy, sigma, gain=1000.0, adc_max=65535):
    plane = np.full(shape, gain, np.float32)
    photons = tuple(np.array(values, np.float32) for values in (x, y, energy))
    zeros = np.zeros(shape, np.float32)
    frame = np.empty(shape, np.uint16)
    expose(1, zeros, zeros, plane, photons, sigma, adc_max, frame)
    return frame


def gaussian_share(at_x, at_y, x, y, sigma):
    def along(at, pixel):
        return 0.5 * sum(sign * math.erf((pixel - at + sign * 0.5) / (math.sqrt(2) * sigma)) for sign in (1, -1))

    return along(at_x, x) * along(at_y, y)


@pytest.mark.parametrize("at", [(5.0, 4.0), (5.49, 4.49), (4.5, 4.0), (0.1, 8.4), (-0.5, -0.5)])
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.2])
def test_the_charge_of_a_photon_is_shared_by_a_gaussian_cloud_in_x_and_y(at, sigma):
    frame = exposed((9, 12), [at[0]], [at[1]], [8.0], sigma)
    expected = [[8000 * gaussian_share(*at, x, y, sigma) for x in range(12)] for y in range(9)]
    np.testing.assert_allclose(frame, expected, atol=0.6)


def test_three_pixels_squared_keep_99_percent_of_any_photon_by_default():
    detector = SimulatedDetector()
    for at in [(5.0, 5.0), (5.49, 5.49), (5.49, 5.0)]:
        frame = exposed((11, 11), [at[0]], [at[1]], [8.0], detector.cloud_sigma)
        assert frame[4:7, 4:7].sum() > 0.99 * 8000
        assert frame.max() == frame[5, 5]


def test_charges_add_up_and_end_at_the_converters_range():
    assert exposed((1, 1), [0, 0], [0, 0], [1, 2], 0.01)[0, 0] == 3000
    assert exposed((1, 1), [0, 0], [0, 0], [1, 2], 0.01, adc_max=2500)[0, 0] == 2500


def test_the_noise_is_gaussian_to_its_far_tails():
    shape = (2000, 2000)
    n = shape[0] * shape[1]
    widths = 1000.0
    frame = np.empty(shape, np.uint16)
    expose(
        7,
        np.full(shape, 10 * widths, np.float32),
        np.full(shape, widths, np.float32),
        np.ones(shape, np.float32),
        (np.empty(0, np.float32),) * 3,
        0.3,
        65535,
        frame,
    )
    noise = frame / widths - 10
    assert abs(noise.mean()) < 5 / math.sqrt(n)
    assert abs(noise.std() - 1) < 5 / math.sqrt(2 * n)
    for threshold in (0.5, 1.0, 2.0, 3.0, 3.9, 4.1, 4.5):
        # Whole ADU above a threshold were rounded from half an ADU above it.
        beyond = threshold + 0.5 / widths
        expected = n * 0.5 * math.erfc(beyond / math.sqrt(2))
        for count in ((noise > threshold).sum(), (noise < -threshold).sum()):
            assert abs(count - expected) < 5 * math.sqrt(expected)
    for step in (1, 2, shape[1]):
        flat = noise.ravel()
        assert abs(np.mean(flat[step:] * flat[:-step])) < 5 / math.sqrt(n)


def test_photons_fall_everywhere_alike_with_two_energies_and_a_poisson_count():
    detector = SimulatedDetector(shape=(40, 60), photons_per_frame=500, seed=3)
    photons = [detector.photons(frame) for frame in range(200)]
    counts = np.array([len(each) for each in photons])
    n = counts.sum()
    assert abs(counts.mean() - 500) < 5 * math.sqrt(500 / 200)
    assert abs(counts.var() / 500 - 1) < 0.5
    x, y, energy = (np.concatenate([getattr(each, name) for each in photons]) for name in ("x", "y", "energy_keV"))
    assert x.min() >= -0.5
    assert y.min() >= -0.5
    assert x.max() < 59.5
    assert y.max() < 39.5
    for values, length in ((x, 60), (y, 40)):
        assert abs(values.mean() - (length - 1) / 2) < 5 * length / math.sqrt(12 * n)
    np.testing.assert_array_equal(np.unique(energy), np.float32([K_ALPHA_KEV, K_BETA_KEV]))
    assert abs((energy > 8.5).mean() - 0.12) < 5 * math.sqrt(0.12 * 0.88 / n)


def test_a_frame_depends_on_the_seed_and_its_place_alone():
    detector = SimulatedDetector(shape=(30, 20), seed=5)
    later, photons = detector.frame(9, 10)
    for frame in range(3):
        detector.frame(frame, 10)
        detector.dark_frame(frame)
    again, same_photons = SimulatedDetector(shape=(30, 20), seed=5).frame(9, 1000)
    np.testing.assert_array_equal(again, later)
    np.testing.assert_array_equal(same_photons.x, photons.x)
    np.testing.assert_array_equal(detector.photons(9).energy_keV, photons.energy_keV)
    others = [
        detector.frame(8, 10)[0],
        detector.dark_frame(9),
        detector.dark_frame(8),
        SimulatedDetector(shape=(30, 20), seed=6).frame(9, 10)[0],
    ]
    assert all(not np.array_equal(other, later) for other in others)


def test_dead_and_hot_pixels_are_masked_and_behave_so():
    detector = SimulatedDetector(shape=(40, 40), bad_pixels=11, seed=2)
    maps = detector.maps
    assert (maps.mask == DEAD).sum() == 6
    assert (maps.mask == HOT).sum() == 5
    frames = np.stack([detector.frame(frame, 50)[0] for frame in range(50)])
    assert not frames[:, maps.mask == DEAD].any()
    assert (frames[:, maps.mask == HOT].mean(0) > maps.pedestal[maps.mask == 0].max()).all()
    assert (frames[:, maps.mask == HOT].std(0) > 5 * np.median(maps.noise)).all()


def test_drift_moves_the_pedestal_by_so_many_noise_widths_over_the_run():
    options = {"shape": (50, 50), "photons_per_frame": 0, "bad_pixels": 0, "seed": 1}
    detector = SimulatedDetector(drift=8.0, **options)
    still = SimulatedDetector(**options)
    for frame in (0, 50, 99):
        moved = detector.frame(frame, 100)[0].astype(float) - still.frame(frame, 100)[0]
        np.testing.assert_allclose(moved / detector.maps.noise, 8 * frame / 100, atol=0.06)
    np.testing.assert_array_equal(detector.dark_frame(3), still.dark_frame(3))


def test_without_noise_or_photons_a_frame_is_the_pedestal():
    detector = SimulatedDetector(shape=(3, 4), photons_per_frame=0, pedestal=1234.0, **QUIET)
    frame, photons = detector.frame(0, 1)
    assert (frame == 1234).all()
    assert len(photons) == 0


def test_a_detector_of_one_pixel_works():
    frame, _ = SimulatedDetector(shape=(1, 1), photons_per_frame=3).frame(0, 1)
    assert frame.shape == (1, 1)


def test_a_detector_is_small_to_send_even_after_its_maps_were_made():
    detector = SimulatedDetector()
    assert detector.maps.gain.shape == (400, 400)
    assert len(pickle.dumps(detector)) < 2000


def test_the_default_gives_about_2400_clusters_a_frame_at_5_sigma():
    detector = SimulatedDetector()
    maps = detector.maps
    pedestal = Pedestal.from_mean_and_noise(maps.pedestal, maps.noise, n_samples=1000)
    finder = open_finder("cpu", FinderParameters(), shape=detector.shape, pixel_mask=maps.mask)
    batch = finder.find(np.stack([detector.frame(frame, 5)[0] for frame in range(5)]), pedestal)
    assert 2300 < batch.n_clusters.mean() < 2500


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shape": (0, 4)}, "1 to 65536 rows"),
        ({"shape": (4, 70000)}, "1 to 65536 rows"),
        ({"photons_per_frame": -1.0}, "photons_per_frame is at least 0"),
        ({"photons_per_frame": math.nan}, "photons_per_frame is at least 0"),
        ({"gain": 0.0}, "gain is above 0"),
        ({"gain": math.nan}, "gain is above 0"),
        ({"cloud_sigma": math.inf}, "cloud_sigma is above 0"),
        ({"noise": -0.1}, "noise is at least 0"),
        ({"drift": math.nan}, "finite"),
        ({"bad_pixels": 161_000}, "bad_pixels is 0 to"),
        ({"seed": -1}, "seed is at least 0"),
        ({"k_beta_fraction": 1.5}, "k_beta_fraction is 0 to 1"),
        ({"adc_max": 1 << 16}, "adc_max is 1 to 65535"),
    ],
)
def test_a_detector_that_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        SimulatedDetector(**options)


def test_a_simulated_archive_keeps_the_truth_of_every_photon_and_pixel(tmp_path):
    detector = SimulatedDetector(shape=(20, 30), photons_per_frame=12, seed=4)
    simulated = SimulatedArchive.create(tmp_path / "a.zarr", detector, 130, n_dark=7, frames_per_chunk=30)
    for part in reversed(list(simulated.parts())):
        simulated.write(part)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    assert archive.missing_chunks(0, 130) == []
    assert (archive.n_frames, archive.n_dark, archive.frame_shape) == (130, 7, (20, 30))
    np.testing.assert_array_equal(archive.pixel_mask, detector.maps.mask)
    truth = zarr.open_group(tmp_path / "a.zarr" / "truth", mode="r")
    for name in ("pedestal", "noise", "gain"):
        np.testing.assert_array_equal(truth[name][...], getattr(detector.maps, name))
    counts, stored = truth["n_photons"][...], {name: truth[name][...] for name in ("x", "y", "energy_keV")}
    for frame in range(130):
        image, photons = detector.frame(frame, 130)
        np.testing.assert_array_equal(archive.frames[frame], image)
        assert counts[frame] == len(photons)
        for name, values in stored.items():
            np.testing.assert_array_equal(values[frame, : len(photons)], getattr(photons, name))
            assert np.isnan(values[frame, len(photons) :]).all()
    for frame in range(7):
        np.testing.assert_array_equal(archive.dark[frame], detector.dark_frame(frame))
    assert archive.attrs["simulation"]["gain"] == 100.0
    assert "pixel centres are at integers" in truth["x"].attrs["convention"]


def test_an_archive_without_darks_or_photons_can_be_simulated(tmp_path):
    detector = SimulatedDetector(shape=(4, 5), photons_per_frame=0)
    simulated = SimulatedArchive.create(tmp_path / "a.zarr", detector, 3, n_dark=0)
    assert [simulated.write(part) for part in simulated.parts()] == [3]
    assert FrameArchive.open(tmp_path / "a.zarr").dark is None
