"""What moves a simulated pedestal is what its truth says, and all else stays as it was."""

import math
from dataclasses import replace

import numpy as np
import pytest
import zarr

from frame_archive import FrameArchive
from frame_archive.disturbances import BLINKING, HOT, Disturbance
from frame_archive.simulated_archive import SimulatedArchive
from frame_archive.simulation import SimulatedDetector

DETECTOR = SimulatedDetector(shape=(24, 30), photons_per_frame=8, seed=5)


def disturbed(detector: SimulatedDetector = DETECTOR, **disturbance) -> SimulatedDetector:
    return replace(detector, disturbance=Disturbance(**disturbance))


def difference(detector: SimulatedDetector, frame: int, n_frames: int = 100) -> np.ndarray:
    """What the disturbance adds to a frame, ADU, each value rounded once."""
    (with_it, photons), (without, same) = (d.frame(frame, n_frames) for d in (detector, DETECTOR))
    np.testing.assert_array_equal(photons.x, same.x)
    return with_it.astype(np.int64) - without


def test_a_step_comes_at_its_frame_and_stays():
    detector = disturbed(step=3.0, step_frame=10)
    assert (difference(detector, 9) == 0).all()
    good = DETECTOR.maps.mask == 0
    for frame in (10, 11, 99):
        np.testing.assert_allclose(difference(detector, frame)[good], 3 * DETECTOR.maps.noise[good], atol=1)


def test_a_sinusoid_swings_about_the_pedestal_with_its_period():
    detector = disturbed(sinusoid=2.0, sinusoid_period=40)
    good = DETECTOR.maps.mask == 0
    for frame, widths in ((0, 0.0), (10, 2.0), (20, 0.0), (30, -2.0), (45, 2 * math.sin(math.pi / 4))):
        assert detector.moved(frame, 100) == pytest.approx(widths, abs=1e-9)
        np.testing.assert_allclose(difference(detector, frame)[good], widths * DETECTOR.maps.noise[good], atol=1)


def test_drift_step_and_sinusoid_add_up():
    detector = disturbed(replace(DETECTOR, drift=1.0), step=2.0, step_frame=30, sinusoid=0.5, sinusoid_period=100)
    assert detector.moved(75, 100) == pytest.approx(0.75 + 2.0 - 0.5)


@pytest.mark.parametrize(
    ("common_mode", "tile", "tiles"),
    [("row", (1, 30), (24, 1)), ("column", (24, 1), (1, 30)), ("tile:10x8", (10, 8), (3, 4))],
)
def test_pixels_of_a_common_mode_move_together_and_others_apart(common_mode, tile, tiles):
    detector = disturbed(common_mode=common_mode, common_mode_rms=10.0)
    common = np.stack([detector.common_mode(frame) for frame in range(200)])
    assert common.shape[1:] == tiles
    n = common.size
    assert common.std() == pytest.approx(10, abs=5 * 10 / math.sqrt(2 * n))
    assert abs(common.mean()) < 5 * 10 / math.sqrt(n)
    assert len(np.unique(common)) > 0.99 * n
    good = DETECTOR.maps.mask == 0
    for frame in (0, 7):
        plane = common[frame].repeat(tile[0], 0).repeat(tile[1], 1)[:24, :30]
        np.testing.assert_allclose(difference(detector, frame)[good], plane[good], atol=1)


def test_darks_have_a_common_mode_of_their_own_and_nothing_else():
    moving = disturbed(step=5.0, sinusoid=2.0, hot_pixels=9, blinking_pixels=9)
    for frame in (0, 3):
        np.testing.assert_array_equal(moving.dark_frame(frame), DETECTOR.dark_frame(frame))
    common = disturbed(common_mode="row", common_mode_rms=20.0)
    moved = (common.dark_frame(3).astype(int) - DETECTOR.dark_frame(3))[DETECTOR.maps.mask == 0]
    assert moved.std() > 10
    assert not np.array_equal(common.common_mode(3), common.common_mode(3, dark=True))


def test_hot_pixels_stand_up_in_every_frame_and_blinking_ones_half_of_the_time():
    detector = disturbed(hot_pixels=5, blinking_pixels=200)
    changed = detector.changed_pixels
    mask = changed.mask(detector.shape)
    assert ((mask == HOT).sum(), (mask == BLINKING).sum()) == (5, 200)
    assert not ((mask != 0) & (detector.maps.mask != 0)).any()
    levels = np.stack([changed.levels(frame) for frame in range(5000)])
    up = levels > 0
    assert up[:, :5].all()
    # A state lasts up to 500 frames: so many states in 5 000 frames, each up or down by chance.
    assert up[:, 5:].mean() == pytest.approx(0.5, abs=0.05)
    switches = (up[1:] != up[:-1]).sum(0)
    assert (switches[5:] > 0).mean() > 0.99
    assert switches[5:].max() <= 5000 / 5
    assert np.median(switches[5:]) < 200
    np.testing.assert_allclose(
        difference(detector, 17).flat[changed.pixel], levels[17] * DETECTOR.maps.noise.flat[changed.pixel], atol=1
    )
    np.testing.assert_array_equal(difference(detector, 17)[mask == 0], 0)


def test_a_share_of_the_values_is_in_another_gain_and_the_others_stay_as_they_were(tmp_path):
    detector = disturbed(switched=0.02)
    n_switched = 0
    for frame in range(50):
        with_it, without = detector.frame(frame, 100)[0], DETECTOR.frame(frame, 100)[0]
        switched = with_it >> 14 != 0
        np.testing.assert_array_equal(with_it[~switched], without[~switched])
        assert set(np.unique(with_it >> 14).tolist()) <= {0, 1, 3}
        n_switched += int(switched.sum())
    assert n_switched == pytest.approx(0.02 * 50 * 720, rel=0.2)
    np.testing.assert_array_equal(detector.dark_frame(3), DETECTOR.dark_frame(3))
    SimulatedArchive.create(tmp_path / "a.zarr", detector, 3, n_dark=0)
    assert FrameArchive.open(tmp_path / "a.zarr").gain_bits == 2
    SimulatedArchive.create(tmp_path / "b.zarr", DETECTOR, 3, n_dark=0)
    assert FrameArchive.open(tmp_path / "b.zarr").gain_bits == 0
    with pytest.raises(ValueError, match="leaves no room for gain bits: at most 16383"):
        disturbed(replace(DETECTOR, adc_max=1 << 14), switched=0.1)


def test_darks_hold_photons_if_they_are_to():
    detector = disturbed(dark_photons=2.0)
    noise = DETECTOR.maps.noise.mean()
    lit = [int((np.abs(detector.dark_frame(i) - DETECTOR.maps.pedestal) > 8 * noise).any()) for i in range(60)]
    assert sum(lit) / 60 == pytest.approx(1 - math.exp(-2), abs=0.15)
    np.testing.assert_array_equal(detector.frame(4, 10)[0], DETECTOR.frame(4, 10)[0])


def test_an_archive_keeps_the_truth_of_all_that_moves(tmp_path):
    detector = disturbed(
        step=1.0,
        step_frame=50,
        sinusoid=1.0,
        common_mode="tile:12x10",
        common_mode_rms=8.0,
        hot_pixels=2,
        blinking_pixels=3,
    )
    simulated = SimulatedArchive.create(tmp_path / "a.zarr", detector, 130, n_dark=7, frames_per_chunk=30)
    for part in reversed(list(simulated.parts())):
        simulated.write(part)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    truth = zarr.open_group(tmp_path / "a.zarr" / "truth", mode="r")
    assert truth["moved"][...].tolist() == [detector.moved(frame, 130) for frame in range(130)]
    for frame in (0, 60, 129):
        np.testing.assert_array_equal(archive.frames[frame], detector.frame(frame, 130)[0])
        np.testing.assert_array_equal(truth["common_mode"][frame], detector.common_mode(frame))
    np.testing.assert_array_equal(truth["changed_pixels"][...], detector.changed_pixels.mask(detector.shape))
    # The mask knows nothing of pixels that changed after the darks.
    np.testing.assert_array_equal(archive.pixel_mask, detector.maps.mask)
    assert archive.attrs["simulation"]["disturbance"]["step_frame"] == 50


def test_an_undisturbed_archive_says_nothing_of_disturbances(tmp_path):
    simulated = SimulatedArchive.create(tmp_path / "a.zarr", DETECTOR, 3, n_dark=0)
    assert "disturbance" not in simulated.writer.archive().attrs["simulation"]
    assert set(zarr.open_group(tmp_path / "a.zarr" / "truth", mode="r")) == {
        "pedestal", "noise", "gain", "n_photons", "x", "y", "energy_keV"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": math.nan}, "finite"),
        ({"step": 1.0, "step_frame": -1}, "frame 0 or later"),
        ({"sinusoid": 1.0, "sinusoid_period": 0.0}, "period of the sinusoid is above 0"),
        ({"common_mode_rms": 1.0}, "needs pixels that share it"),
        ({"common_mode": "diagonal", "common_mode_rms": 1.0}, "not 'diagonal'"),
        ({"common_mode": "tile:0x4"}, "not 'tile:0x4'"),
        ({"common_mode": "row", "common_mode_rms": math.inf}, "at least 0 ADU"),
        ({"hot_pixels": -1}, "at least 0"),
        ({"switched": 1.5}, "the share of values in another gain is 0 to 1"),
        ({"dark_photons": -1.0}, "the photons of a dark frame are at least 0"),
        ({"hot_pixels": 700, "blinking_pixels": 21}, "do not fit on 720 good ones"),
    ],
)
def test_a_disturbance_that_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        disturbed(**options)
