"""A pedestal that moves: each remedy brings back what an undisturbed run finds, against the truth of every photon."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from finder import CommonMode, FinderParameters, Pedestal, open_finder, recentred
from frame_archive.disturbances import Disturbance
from frame_archive.simulation import SimulatedDetector

SHAPE = (128, 128)
DETECTOR = SimulatedDetector(shape=SHAPE, seed=6)
MASK = DETECTOR.maps.mask
N_FRAMES, BATCH, K = 400, 100, 64
APART = 5


@dataclass(frozen=True)
class Score:
    """Efficiency (found / true isolated photons) and purity (clusters that are photons / clusters)."""

    efficiency: float
    purity: float

    def is_as_good_as(self, other: Score) -> bool:
        return abs(self.efficiency - other.efficiency) <= 0.01 and abs(self.purity - other.purity) <= 0.01


class Exposure:
    """Seeded frames of a disturbed detector, the darks that were taken before, and the photons."""

    def __init__(self, detector: SimulatedDetector) -> None:
        self.dark = np.stack([detector.dark_frame(i) for i in range(300)])
        self.frames = np.empty((N_FRAMES, *SHAPE), np.uint16)
        photons = [detector.frame(i, N_FRAMES, self.frames[i])[1] for i in range(N_FRAMES)]
        self.frame = np.repeat(np.arange(N_FRAMES), [len(each) for each in photons])
        self.yx = np.concatenate([np.column_stack([each.y, each.x]) for each in photons])
        self.alone = np.concatenate([self._alone(np.column_stack([each.y, each.x])) for each in photons])

    @staticmethod
    def _alone(yx: np.ndarray) -> np.ndarray:
        apart = np.abs(yx[:, None] - yx[None]).max(-1)
        np.fill_diagonal(apart, np.inf)
        return (apart.min(1) > APART) & ((yx > APART) & (yx < np.array(SHAPE) - APART)).all(1)

    def score(self, clusters: list, masked: np.ndarray, first: int = 0) -> Score:
        """Of clusters (first frame, batch), in the frames from `first` on; no photon near a masked pixel counts."""
        near = masked.copy()
        for _ in range(APART):
            near = np.logical_or.reduce([np.roll(near, d, a) for a in (0, 1) for d in (-1, 0, 1)])
        at = np.rint(self.yx).astype(np.int64)
        alone = self.alone & ~near[np.clip(at[:, 0], 0, SHAPE[0] - 1), np.clip(at[:, 1], 0, SHAPE[1] - 1)]
        alone &= self.frame >= first
        found = np.concatenate([self._code(start + b.frame_index, b.y, b.x) for start, b in clusters if start >= first])
        photons = self._code(self.frame, at[:, 0], at[:, 1])
        steps = [self._code(0, dy, dx) - self._code(0, 0, 0) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        hit = np.logical_or.reduce([np.isin(photons[alone] + step, found) for step in steps])
        real = np.logical_or.reduce([np.isin(found + step, photons) for step in steps])
        assert len(hit) > 1000
        return Score(float(hit.mean()), float(real.mean()))

    @staticmethod
    def _code(frame, y, x) -> np.ndarray:
        return (np.asarray(frame, np.int64) * 200 + np.asarray(y, np.int64) + 5) * 200 + np.asarray(x, np.int64) + 5


def run(exposure: Exposure, *, recentre=0, chained=False, common_mode=None, mask=MASK, n_samples=1000):
    """The clusters of all batches, and in how many frames each pixel was a cluster's centre."""
    parameters = FinderParameters(n_samples=n_samples, common_mode=common_mode)
    finder = open_finder("cpu", parameters, SHAPE, mask)
    trained = Pedestal.from_dark(exposure.dark, n_samples, common_mode=common_mode, pixel_mask=mask)
    clusters, centres, pedestal = [], np.zeros(SHAPE, np.int64), trained
    for start in range(0, N_FRAMES, BATCH):
        frames = exposure.frames[start : start + BATCH]
        if not chained:
            pedestal = recentred(trained, frames[:recentre], mask, common_mode=common_mode)
        chain = finder.chain(pedestal)
        clusters.append((start, chain.find(frames)))
        centres += chain.activity.centres
        pedestal = chain.pedestal
    return clusters, centres


def disturbed(**disturbance) -> Exposure:
    drift = disturbance.pop("drift", 0.0)
    return Exposure(replace(DETECTOR, drift=drift, disturbance=Disturbance(**disturbance)))


@pytest.fixture(scope="module")
def undisturbed() -> Score:
    exposure = Exposure(DETECTOR)
    score = exposure.score(run(exposure)[0], MASK != 0)
    assert score.efficiency > 0.99
    assert score.purity > 0.97
    # A pedestal that fits is not made worse.
    assert exposure.score(run(exposure, recentre=K)[0], MASK != 0).is_as_good_as(score)
    return score


@pytest.mark.parametrize(
    ("disturbance", "worst_from"),
    [
        ({"drift": 3.0}, 300),
        ({"step": 3.0, "step_frame": 200}, 200),
        ({"sinusoid": 3.0, "sinusoid_period": 1000}, 200),
    ],
    ids=["slow drift", "step", "sinusoid"],
)
def test_recentring_each_batch_brings_back_efficiency_and_purity(undisturbed, disturbance, worst_from):
    exposure = disturbed(**disturbance)
    assert exposure.score(run(exposure, recentre=K)[0], MASK != 0).is_as_good_as(undisturbed)
    lost = exposure.score(run(exposure)[0], MASK != 0, first=worst_from)
    assert not lost.is_as_good_as(undisturbed)


def test_one_chain_follows_a_drift_that_is_slow_for_its_memory():
    # It lags behind by the drift within its memory: 0.2 noise widths here.
    drifting, still = (
        exposure.score(run(exposure, chained=True, n_samples=50)[0], MASK != 0)
        for exposure in (disturbed(drift=1.5), Exposure(DETECTOR))
    )
    assert drifting.is_as_good_as(still)


@pytest.mark.parametrize("pixels", ["row", "column", "tile:32x64"])
def test_subtracting_the_common_mode_brings_back_efficiency_and_purity(undisturbed, pixels):
    exposure = disturbed(common_mode=pixels, common_mode_rms=40.0)
    mode = CommonMode.parse(pixels)
    assert exposure.score(run(exposure, common_mode=mode)[0], MASK != 0).is_as_good_as(undisturbed)
    # In the darks it counts as noise, so that the threshold is far too high without it.
    without = exposure.score(run(exposure)[0], MASK != 0)
    assert without.efficiency + without.purity < undisturbed.efficiency + undisturbed.purity - 0.008


def test_masking_hot_and_blinking_pixels_brings_back_efficiency_and_purity(undisturbed):
    detector = replace(DETECTOR, disturbance=Disturbance(hot_pixels=20, blinking_pixels=20))
    exposure = Exposure(detector)
    clusters, centres = run(exposure)
    assert exposure.score(clusters, MASK != 0).purity < undisturbed.purity - 0.01
    # A photon falls on a pixel in 1.6 % of the frames.
    often = centres > 0.1 * N_FRAMES
    truth = detector.changed_pixels.mask(SHAPE) != 0
    assert not (often & ~truth).any()
    assert often.sum() > 30
    mask = np.where(often, MASK | 1 << 8, MASK)
    clusters, _ = run(exposure, mask=mask)
    assert exposure.score(clusters, mask != 0).is_as_good_as(undisturbed)
