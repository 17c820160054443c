"""Darks that are wrong are named, in a run and in a dry run alike; good ones never are."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import zarr

from frame_archive import create_archive
from frame_archive.disturbances import Disturbance
from frame_archive.simulation import SimulatedDetector
from pipeline import RunOptions, WrongDarksWarning, execute, prepare
from pipeline.checks.dark_problems import problems_of_sample

DETECTOR = SimulatedDetector(shape=(80, 90), seed=2)
N_DARK, N_FRAMES = 240, 80


@cache
def exposed(detector: SimulatedDetector, n: int, dark: bool) -> np.ndarray:
    frames = [detector.dark_frame(i) if dark else detector.frame(i, n)[0] for i in range(n)]
    stacked = np.stack(frames)
    stacked.flags.writeable = False
    return stacked


def darks(detector: SimulatedDetector = DETECTOR, n: int = N_DARK) -> np.ndarray:
    return exposed(detector, n, True).copy()


def write(path: Path, dark: np.ndarray, detector: SimulatedDetector = DETECTOR, attrs=None, dark_attrs=None) -> str:
    frames = exposed(detector, N_FRAMES, False)
    writer = create_archive(
        path, frames.shape, frames.dtype, n_dark=len(dark), pixel_mask=detector.maps.mask, attrs=attrs
    )
    writer.write_frames(0, frames)
    writer.write_dark(0, dark)
    if dark_attrs:
        zarr.open_array(path / "dark", mode="r+").attrs.update(dark_attrs)
    return str(path)


def problems(path: str, **options) -> list[str]:
    return problems_of_sample(prepare(RunOptions(path, **options)))


def with_photons(dark: np.ndarray, n_frames: int) -> np.ndarray:
    """The first `n_frames` darks have the beam on."""
    dark[:n_frames] = exposed(DETECTOR, N_FRAMES, False)[:n_frames]
    return dark


def scaled(dark: np.ndarray, factor: float) -> np.ndarray:
    """As if taken with another gain: all but the mean scaled."""
    mean = dark.mean(0)
    return np.rint((dark - mean) * factor + mean).astype(np.uint16)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("photons in some", lambda dark: with_photons(dark, 5), "as if photons were among them"),
        (
            "photons in a third",
            lambda dark: with_photons(dark, 80),
            "of that of the pedestal|times that of the pedestal",
        ),
        ("a lower gain", lambda dark: scaled(dark, 0.5), "the noise of the first frames is 2.* times"),
        ("a higher gain", lambda dark: scaled(dark, 2.0), "the noise of the first frames is 0.5. times"),
        (
            "a module at another gain",
            lambda dark: np.concatenate([scaled(dark[:, :8], 4.0), dark[:, 8:]], axis=1),
            "% of the pixels are off by more than 2.5 times: photons are lost|clusters are made up",
        ),
        (
            "a step",
            lambda dark: dark + (np.arange(N_DARK) >= 120)[:, np.newaxis, np.newaxis].astype(np.uint16) * 15,
            r"moved while the darks .* by \+0.\d\d noise widths",
        ),
        (
            "a step of a few columns",
            lambda dark: dark + ((np.arange(N_DARK) < 60)[:, None, None] & (np.arange(90) < 5)).astype(np.uint16) * 90,
            r"by more than one in 5\.\d% of all",
        ),
    ],
)
def test_darks_that_cannot_be_right_are_named_with_what_to_do(tmp_path, name, change, words):
    found = problems(write(tmp_path / "a.zarr", change(darks())))
    assert found, name
    assert any(re.search(words, problem) for problem in found), found
    assert all("give darks" in problem and "\n" not in problem for problem in found)
    assert any(str(tmp_path / "a.zarr") in problem for problem in found)


@pytest.mark.parametrize("rate", [0, 1, 3, 10, 30])
def test_good_darks_are_not_named_at_any_rate(tmp_path, rate):
    detector = replace(DETECTOR, photons_per_frame=rate * DETECTOR.mean_photons)
    assert problems(write(tmp_path / "a.zarr", darks(detector), detector)) == []


@pytest.mark.parametrize(
    "disturbance",
    [
        {"step": 3.0, "step_frame": 30},
        {"sinusoid": 1.0, "sinusoid_period": 50},
        {"common_mode": "row", "common_mode_rms": 10.0},
        {"common_mode": "tile:40x45", "common_mode_rms": 15.0},
        {"hot_pixels": 20, "blinking_pixels": 40},
    ],
)
def test_what_moves_after_good_darks_is_not_their_fault(tmp_path, disturbance):
    detector = replace(DETECTOR, disturbance=Disturbance(**disturbance))
    assert problems(write(tmp_path / "a.zarr", darks(detector), detector)) == []


def test_bad_pixels_in_the_darks_are_not_wrong_darks(tmp_path):
    dark = darks()
    bad = np.random.default_rng(4).choice(dark[0].size, dark[0].size // 100, replace=False)
    flat = dark.reshape(N_DARK, -1)
    flat[np.arange(len(bad)) % N_DARK, bad] += 3000
    assert problems(write(tmp_path / "a.zarr", dark)) == []


def test_faint_noise_and_few_frames_or_pixels_are_not_judged(tmp_path):
    faint = replace(DETECTOR, noise=0.004)
    assert problems(write(tmp_path / "faint.zarr", darks(faint), faint)) == []
    path = write(tmp_path / "few.zarr", scaled(darks(), 3.0))
    assert problems(path)
    assert problems(path, frames=(0, 20)) == []


def test_other_settings_of_the_darks_are_named_where_both_state_them(tmp_path):
    path = write(
        tmp_path / "a.zarr", darks(), attrs={"exposure_s": 0.001, "gain": "high", "title": "run"},
        dark_attrs={"exposure_s": 0.01, "gain": "high", "title": "darks"},
    )  # fmt: skip
    (problem,) = problems(path)
    assert "were taken with exposure_s 0.01, and the frames of" in problem
    assert "with 0.001: give darks of the same settings" in problem
    other = write(tmp_path / "other.zarr", darks(), attrs={"gain_mode": "G0"})
    assert problems(path, pedestal=other, overwrite=True) == []
    other = write(tmp_path / "another.zarr", darks(), attrs={"gain": "low", "exposure_s": 1e-3})
    (problem,) = problems(path, pedestal=other)
    assert "another.zarr) were taken with gain 'low'" in problem


def test_darks_of_another_archive_that_are_packed_otherwise_are_refused(tmp_path):
    path = write(tmp_path / "a.zarr", darks())
    other = write(tmp_path / "other.zarr", darks())
    for name in ("dark", "frames"):
        zarr.open_array(Path(other) / name, mode="r+").attrs.update({"scale_factor": 0.1})
    with pytest.raises(ValueError, match=r"packed with scale_factor 0\.1, and the frames of .* with 1"):
        prepare(RunOptions(path, pedestal=other))


def test_a_run_warns_of_what_a_dry_run_warns_of(client, tmp_path):
    path = write(tmp_path / "a.zarr", with_photons(darks(), 5))
    prepared = prepare(RunOptions(path))
    with pytest.warns(WrongDarksWarning, match="as if photons were among them"):
        execute(prepared, client)


def test_a_run_on_good_darks_warns_of_nothing(client, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        execute(prepare(RunOptions(write(tmp_path / "a.zarr", darks()))), client)


def test_a_ready_pedestal_of_another_noise_is_named(tmp_path):
    path = write(tmp_path / "a.zarr", darks())
    dark = darks()
    for factor, n_problems in ((1.0, 0), (3.0, 1)):
        np.savez(tmp_path / "p.npz", mean=dark.mean(0), noise=factor * dark.std(0))
        assert len(problems(path, pedestal=str(tmp_path / "p.npz"))) == n_problems


@pytest.mark.parametrize("value", [1000, 65535])
def test_darks_without_any_noise_are_told(tmp_path, value):
    path = write(tmp_path / "a.zarr", np.full_like(darks(n=100), value))
    (problem,) = problems(path)
    assert "100% of the pixels have no noise at all" in problem
