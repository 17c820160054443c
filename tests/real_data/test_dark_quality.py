"""What judges darks finds nothing wrong with real ones, and finds photons, steps and other gains put into them.

There are too few real frames to train on, but each has many pixels: a frame is cut into tiles, and the tiles are taken
as frames of one small detector. The Jungfrau's pixels have their own means subtracted first.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from finder import DarkSums, Pedestal
from finder.dark_clip import kept_range
from finder.dark_quality import DarkBlock, DarkQuality, mean_and_noise, quality_of_darks
from finder.noise_of_frames import noise_of_frames

RAW = Path(__file__).parents[2].parent / "shared" / "data" / "jungfrau_raw"
FRAME_IN_FILE = np.dtype([("number", "<u8"), ("rest_of_header", "V104"), ("pixels", "<u2", (512, 1024))])
SIDE = 64


def tiles(frames: np.ndarray) -> np.ndarray:
    """(frame, y, x) cut into squares, as (tile, y, x)."""
    n, rows, columns = frames.shape
    down, across = rows // SIDE, columns // SIDE
    cut = frames[:, : down * SIDE, : across * SIDE].reshape(n, down, SIDE, across, SIDE)
    return cut.swapaxes(2, 3).reshape(-1, SIDE, SIDE)


def judged(dark: np.ndarray) -> DarkQuality:
    return quality_of_darks([DarkBlock.of(block) for block in np.array_split(dark, 8)])


def noise_ratio(frames: np.ndarray, dark: np.ndarray) -> tuple[float, float]:
    """The frames' noise by the darks': the median over pixels, and the share of pixels that are off by 2.5 times."""
    _, noise = mean_and_noise(DarkBlock.of(dark).sums)
    measured = noise_of_frames(frames[:64].reshape(64, -1))
    ratio = measured.noise / noise.ravel()
    return float(np.median(ratio)), float(((ratio < 0.4) | (ratio > 2.5)).mean())


@pytest.fixture(scope="module")
def jungfrau() -> np.ndarray:
    if not RAW.exists():
        pytest.skip(f"the Jungfrau frames are not there: {RAW} is absent")
    files = sorted(RAW.glob("jungfrau_single_d0_f*_0.raw"))
    raw = np.concatenate([np.fromfile(path, FRAME_IN_FILE)["pixels"] for path in files]).astype(np.float64)
    flat = np.rint(raw - np.median(raw, axis=0) + 1000).astype(np.int32)
    return np.random.default_rng(0).permutation(tiles(flat))


@pytest.fixture(scope="module")
def ccd() -> np.ndarray:
    """One tap of a camera with the photons of iron-55 in it."""
    try:
        package = metadata.distribution("msfc-ccd")
    except metadata.PackageNotFoundError:
        pytest.skip("the CCD frames are not there: pip install --no-deps msfc-ccd==1.2.0")
    frames = []
    for number in ("05400", "05408", "05416", "05424"):
        with fits.open(package.locate_file(f"msfc_ccd/_data/fe55/ESIS3_{number}.fit.gz")) as file:
            frames.append(file[0].data[:520, 50:1074].astype(np.uint16))
    return tiles(np.stack(frames))


def test_real_darks_of_a_jungfrau_are_good_and_as_noisy_as_their_frames(jungfrau):
    dark, frames = jungfrau[:640], jungfrau[640:]
    quality = judged(dark)
    assert quality.outliers < 0.02
    assert abs(quality.step) < 1 / 3
    assert quality.pixels_stepped < 0.02
    median, off = noise_ratio(frames, dark)
    assert 0.75 < median < 1.5
    assert off < 0.05


def test_a_step_and_another_gain_of_a_jungfrau_are_seen(jungfrau):
    dark, frames = jungfrau[:640].copy(), jungfrau[640:]
    assert noise_ratio(frames, (dark - 1000) * 3 + 1000)[0] < 0.75
    noise = np.median(mean_and_noise(DarkBlock.of(dark).sums)[1])
    dark[320:] += round(noise)
    assert judged(dark).step == pytest.approx(1, abs=0.3)


def test_frames_with_the_photons_of_iron_55_are_seen_as_such_when_they_are_taken_for_darks(ccd):
    assert judged(ccd).outliers > 0.5
    assert noise_ratio(ccd, ccd)[0] < 0.75


def test_a_clip_takes_the_photons_of_iron_55_out_of_frames_that_are_taken_for_darks(ccd):
    with_photons, clipped = Pedestal.from_dark(ccd), Pedestal.from_dark(ccd, clip=5)
    # The lower values, which no photon raises, say the same.
    noise = float(np.median(noise_of_frames(ccd.reshape(len(ccd), -1)).noise))
    assert np.median(with_photons.noise) > 4 * noise
    assert np.median(clipped.noise) == pytest.approx(noise, rel=0.05)
    assert np.median(clipped.mean) == pytest.approx(float(np.median(ccd)), abs=1)
    share = DarkSums.of(ccd, within=kept_range(ccd, 5)).clipped.sum() / ccd.size
    assert 0.003 < share < 0.02
