"""The noise of an archive's darks: its map, how far it is from Gaussian, and what that means for clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import FinderParameters
from finder.dark_quality import DarkBlock, DarkQuality, mean_and_noise, quality_of_darks
from finder.false_clusters import expected_false_clusters
from finder.gain_bits import in_another_gain
from finder.noise_of_frames import FEWEST_FRAMES, noise_of_frames
from finder.pixel_mask import masked_pixels
from frame_archive import FrameArchive
from workflows.facts import Fact, Section

DARKS_USED = 1000
FRAMES_USED = 64
FEWEST_FOR_TAILS = 10
BIN_WIDTH = 0.25
REACH = 12.0
_BLOCK_BYTES = 32 << 20
_TAILS = (3.0, 4.0, 5.0)
# Pixels of frames whose values are sorted at a time.
_ROWS_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class DarkNoise:
    """What the darks of an archive say.

    Attributes:
        n_darks: how many were used, the first ones.
        counts_pixel: bool (y, x): neither masked nor without noise.
        noise: (y, x) one standard deviation, ADU.
        histogram: values by their distance from their pixel's mean, in bins of a quarter of a noise width from −12 to
            12; the first and the last bin hold all that lies beyond.
        quality: as `finder.dark_quality` judges the darks.
        frame_noise: (y, x) noise of the first frames with their photons left out, ADU; NaN where a pixel was
            in another gain in one of them. None if they are too few.
    """

    n_darks: int
    counts_pixel: npt.NDArray[np.bool_]
    noise: npt.NDArray[np.float64]
    histogram: npt.NDArray[np.int64]
    quality: DarkQuality
    frame_noise: npt.NDArray[np.float64] | None

    @property
    def n_values(self) -> int:
        """Values in the histogram."""
        return int(self.histogram.sum())

    def beyond(self, widths: float) -> float:
        """Share of values more than `widths` (a whole number of bins) from their pixel's mean."""
        left_out = round((REACH - widths) / BIN_WIDTH)
        return float(self.histogram[:left_out].sum() + self.histogram[len(self.histogram) - left_out :].sum()) / max(
            self.n_values, 1
        )


def gaussian_density(widths: npt.NDArray[np.float64], n_darks: int) -> npt.NDArray[np.float64]:
    """How Gaussian noise is spread about its own mean in units of its own width, both taken from the same N darks.

    No value can lie more than √(N − 1) off; the density goes as (1 − x²/(N − 1))^((N − 4)/2) (Thompson, Ann. Math.
    Statist. 6, 1935), and is the normal distribution's for many darks.
    """
    inside = np.maximum(1 - widths**2 / (n_darks - 1), 0)
    # Γ((N − 1)/2) / Γ((N − 2)/2) / √(π (N − 1))
    factor = math.exp(math.lgamma((n_darks - 1) / 2) - math.lgamma((n_darks - 2) / 2))
    density: npt.NDArray[np.float64] = factor / math.sqrt(math.pi * (n_darks - 1)) * inside ** ((n_darks - 4) / 2)
    return density


def gaussian_beyond(widths: float, n_darks: int) -> float:
    """Share of Gaussian values that lie more than `widths` off, as `gaussian_density` has it."""
    x = np.linspace(widths, max(widths, REACH + 3), 4001)
    return 2 * float(np.trapezoid(gaussian_density(x, n_darks), x))


def measure_noise(archive: FrameArchive) -> DarkNoise:
    """Read the first darks, twice, block by block, and the first frames.

    Raises:
        ValueError: There are fewer than two darks.
        ArchiveError: A chunk is missing or damaged.
    """
    if archive.n_dark < 2:
        raise ValueError(
            f"{archive.address.path} has {archive.n_dark or 'no'} dark frames, and noise takes at least 2: leave out "
            "--noise, or give an archive with darks"
        )
    n = min(archive.n_dark, DARKS_USED)
    blocks = [DarkBlock.of(block, gain_bits=archive.gain_bits) for block in _darks(archive, n)]
    total = blocks[0].sums
    for block in blocks[1:]:
        total = total + block.sums
    mean, noise = mean_and_noise(total)
    masked = None if archive.pixel_mask is None else masked_pixels(archive.pixel_mask, archive.frame_shape)
    counts = noise > 0 if masked is None else (noise > 0) & ~masked
    return DarkNoise(
        n_darks=n,
        counts_pixel=counts,
        noise=noise,
        histogram=_histogram(archive, n, mean, noise, counts),
        quality=quality_of_darks(blocks, masked),
        frame_noise=_frame_noise(archive),
    )


def noise_section(noise: DarkNoise) -> Section:
    """The figures of a page."""
    values = noise.noise[noise.counts_pixel]
    middle, low, high = (float(v) for v in np.percentile(values, (50, 5, 95))) if values.size else (math.nan,) * 3
    facts = [
        Fact("darks_used", noise.n_darks, f"{noise.n_darks:,}"),
        Fact("noise_ADU", middle, f"{middle:.2f} ADU in the median pixel, {low:.2f} to {high:.2f} in 90 % of them"),
        Fact("noisy_pixels", int((values > 3 * middle).sum()), f"{int((values > 3 * middle).sum()):,} above 3 × that"),
        Fact("pixels_without_noise", int((noise.noise == 0).sum()), f"{int((noise.noise == 0).sum()):,}"),
    ]
    for widths in _TAILS if noise.n_darks >= FEWEST_FOR_TAILS else ():
        share, expected = noise.beyond(widths), gaussian_beyond(widths, noise.n_darks)
        text = f"{share * 1e6:,.2f} of a million values, Gaussian {expected * 1e6:,.2f}"
        facts.append(Fact(f"beyond_{widths:g}_widths", share, text))
    quality = noise.quality
    facts += [
        Fact("pixels_with_outliers", _known(quality.outliers), _outliers(quality.outliers)),
        Fact("step_widths", _known(quality.step), _widths(quality.step)),
    ]
    expected_clusters = expected_false_clusters(
        FinderParameters(), (noise.noise.shape[0], noise.noise.shape[1]), noise.n_darks, ~noise.counts_pixel
    )
    facts.append(
        Fact(
            "false_clusters_a_frame",
            expected_clusters.a_frame,
            f"about {expected_clusters.a_frame:.3g} at 5 noise widths and 3 × 3, if the noise is Gaussian",
        )
    )
    return Section("noise of the darks", facts)


def _darks(archive: FrameArchive, n: int) -> Iterator[npt.NDArray[Any]]:
    # Not so few blocks that the darks could not be compared with each other.
    step = max(min(_BLOCK_BYTES // archive.frame_nbytes, -(-n // 4)), 1)
    for start in range(0, n, step):
        yield archive.read_dark(start, min(start + step, n))


def _histogram(
    archive: FrameArchive,
    n: int,
    mean: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    counts: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    n_bins = round(2 * REACH / BIN_WIDTH)
    histogram = np.zeros(n_bins, np.int64)
    centre, width = mean[counts], noise[counts]
    for block in _darks(archive, n):
        for frame in block:
            bins = np.floor(((frame[counts] - centre) / width + REACH) / BIN_WIDTH).astype(np.int64)
            bins = bins[~in_another_gain(frame[counts], archive.gain_bits)]
            histogram += np.bincount(np.clip(bins, 0, n_bins - 1), minlength=n_bins)
    return histogram


def _frame_noise(archive: FrameArchive) -> npt.NDArray[np.float64] | None:
    n = min(archive.n_frames, FRAMES_USED)
    if n < FEWEST_FRAMES:
        return None
    frames = np.empty((n, *archive.frame_shape), archive.dtype)
    archive.read(0, n, frames)
    noise = np.empty(archive.frame_shape)
    for row in range(0, len(noise), _ROWS_AT_A_TIME):
        rows = frames[:, row : row + _ROWS_AT_A_TIME]
        noise[row : row + _ROWS_AT_A_TIME] = noise_of_frames(rows.reshape(n, -1)).noise.reshape(rows.shape[1:])
    # Of a pixel that was in another gain in some of them it is not known.
    noise[in_another_gain(frames, archive.gain_bits).any(axis=0)] = np.nan
    return noise


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _outliers(share: float) -> str:
    return f"{share:.2%} have values more than 7 noise widths off" if math.isfinite(share) else "too few darks to say"


def _widths(value: float) -> str:
    words = "noise widths between quarters of the darks"
    return f"{value:+.2f} {words}" if math.isfinite(value) else "too few darks to say"
