"""`inspect --noise` says how the noise of an archive's darks is spread, and draws it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from frame_archive import create_archive
from workflows.dark_noise import gaussian_beyond, gaussian_density

SHAPE = (60, 70)


@pytest.fixture
def make_darks(tmp_path):
    def make(n_dark=200, n_frames=40, outliers=0, name="a.zarr"):
        rng = np.random.default_rng(3)
        mask = np.zeros(SHAPE, np.uint32)
        mask[5, 6] = 2
        dark = rng.normal(4600, 18, (n_dark, *SHAPE))
        dark[:, 10, 11] = 17  # A pixel without noise.
        if outliers:
            flat = dark.reshape(n_dark, -1)
            flat[rng.integers(0, n_dark, outliers), rng.choice(flat.shape[1], outliers, replace=False)] += 800
        writer = create_archive(tmp_path / name, (n_frames, *SHAPE), np.uint16, n_dark=n_dark, pixel_mask=mask)
        if n_dark:
            writer.write_dark(0, np.rint(dark).astype(np.uint16))
        writer.write_frames(0, np.rint(rng.normal(4600, 18, (n_frames, *SHAPE))).astype(np.uint16))
        return name

    return make


def test_the_noise_its_tails_and_the_false_clusters_to_expect_are_said(photonflow, make_darks):
    outcome = photonflow("inspect", make_darks(), "--noise", "--json")
    assert outcome.code == 0, outcome.stderr
    page = json.loads(outcome.stdout)
    noise = page["noise of the darks"]
    assert noise["darks_used"] == 200
    assert noise["noise_ADU"] == pytest.approx(18, rel=0.01)
    assert (noise["noisy_pixels"], noise["pixels_without_noise"]) == (0, 1)
    n_values = 200 * (60 * 70 - 2)
    for widths in (3, 4):
        expected = gaussian_beyond(widths, 200)
        assert noise[f"beyond_{widths}_widths"] == pytest.approx(expected, abs=5 * math.sqrt(expected / n_values))
    assert noise["pixels_with_outliers"] == 0
    assert abs(noise["step_widths"]) < 0.05
    # 60 × 70 pixels have so many of what 400 × 400 have, 0.06.
    assert noise["false_clusters_a_frame"] == pytest.approx(0.065 * 60 * 70 / 400**2, rel=0.1)
    assert page["pictures"] == [f"a.noise/a.noise_{name}.png" for name in ("of_darks", "of_frames", "tails")]


def test_the_pictures_are_drawn_where_asked_and_the_page_names_them(photonflow, make_darks, tmp_path):
    outcome = photonflow("inspect", make_darks(outliers=300), "--noise", "--png", "pictures")
    assert outcome.code == 0, outcome.stderr
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {f"a.{name}.png" for name in ("noise_of_darks", "noise_of_frames", "noise_tails", "dark_mean")} <= drawn
    for name in drawn:
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")
        assert f"pictures/{name}" in outcome.stdout
    assert "7.15% have values more than 7 noise widths off" in outcome.stdout


def test_few_darks_and_few_frames_leave_out_what_they_cannot_say(photonflow, make_darks, tmp_path):
    outcome = photonflow("inspect", make_darks(n_dark=6, n_frames=10), "--noise")
    assert outcome.code == 0, outcome.stderr
    assert "too few darks to say" in outcome.stdout
    assert [path.name for path in (tmp_path / "a.noise").iterdir()] == ["a.noise_of_darks.png"]


@pytest.mark.parametrize(("n_dark", "words"), [(0, "has no dark frames"), (1, "has 1 dark frames")])
def test_an_archive_without_darks_is_refused(photonflow, make_darks, n_dark, words):
    outcome = photonflow("inspect", make_darks(n_dark=n_dark), "--noise")
    assert outcome.code == 1
    assert words in outcome.sentence


def test_values_about_their_own_mean_never_lie_farther_than_the_square_root_of_their_number():
    x = np.linspace(-30, 30, 60_001)
    for n in (10, 30, 1000, 100_000):
        density = gaussian_density(x, n)
        assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-6)
        assert density[np.abs(x) > math.sqrt(n - 1)].sum() == 0
    assert gaussian_beyond(3, 1_000_000) == pytest.approx(math.erfc(3 / math.sqrt(2)), rel=1e-3)
