"""What is wrong with a run's darks: photons or a step in them, another noise than the frames', other settings."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from finder.dark_clip import kept_range
from finder.dark_quality import OUTLIER_WIDTHS, DarkBlock, DarkQuality, mean_and_noise, quality_of_darks
from finder.gain_bits import in_another_gain
from finder.noise_of_frames import FEWEST_FRAMES, noise_of_frames
from finder.pixel_mask import masked_pixels
from frame_archive import ArchiveError
from pipeline.inputs.dark_training import TrainedPedestal
from pipeline.inputs.pedestal_source import DarkFrames, ReadyPedestal
from pipeline.preparation import BLOCK_BYTES, PreparedRun

# More pixels than this is not a matter of bad pixels.
_SHARE_OF_BAD_PIXELS = 0.02
# A third of a noise width moves the sum of a 3×3 window by one of its own.
_STEP = 1 / 3
# The frames' noise by the darks'. Frames on which photons crowd come out too noisy, and then are not judged so.
_QUIETER, _NOISIER = 0.75, 1.5
_CROWDED = 0.15
# A pixel's own ratio scatters by a quarter: so far off are less than one in a hundred by chance.
_PIXEL_QUIETER, _PIXEL_NOISIER, _SHARE_OF_PIXELS_OFF = 0.4, 2.5, 0.05
_FRAMES, _PIXELS, _FEWEST_PIXELS = 64, 8_192, 100
_SHARE_CONSTANT = 0.5
_DARKS_OF_A_GROUP = 50
_SETTINGS = re.compile(r"(?i)(^|_)(exposure|integration|count|acquisition)_?time|(^|_)exposure(_|$)|(^|_)gain(_|$)")


class WrongDarksWarning(UserWarning):
    """The darks are not what a pedestal for these frames can be trained on."""


def warn_of_wrong_darks(prepared: PreparedRun, trained: TrainedPedestal) -> None:
    """Warn once for each thing that is wrong with the darks of a run.

    Raises:
        WrongDarksWarning: (as a warning) What is wrong, and what to do.
    """
    for problem in dark_problems(prepared, trained.dark_noise, trained.quality):
        warnings.warn(problem, WrongDarksWarning, stacklevel=3)


def problems_of_sample(prepared: PreparedRun) -> list[str]:
    """What is wrong with the darks, as far as up to 200 of them show it: for a run that is only planned."""
    source = prepared.pedestal
    if isinstance(source, ReadyPedestal):
        return dark_problems(prepared, source.pedestal.noise, None)
    n, each = source.n_frames, min(_DARKS_OF_A_GROUP, max(source.n_frames // 4, 1))
    starts = sorted({min(round(group * n / 4), n - each) for group in range(4)}) if n > 4 * each else range(0, n, each)
    frames = [source.read(start, min(start + each, n)) for start in starts]
    gain_bits, clip = prepared.options.parameters.gain_bits, prepared.options.dark_clip
    within = None if clip is None else kept_range(np.concatenate(frames), clip, gain_bits)
    blocks = [DarkBlock.of(block, gain_bits=gain_bits, within=within) for block in frames]
    total = reduce(add, (block.sums for block in blocks))
    return dark_problems(prepared, mean_and_noise(total)[1], quality_of_darks(blocks, masked_in(prepared)))


def dark_problems(
    prepared: PreparedRun, dark_noise: npt.NDArray[np.floating[Any]], quality: DarkQuality | None
) -> list[str]:
    """One sentence for each thing that is wrong: what was found, and what to do.

    Args:
        prepared: The run.
        dark_noise: (y, x) ADU, as the darks have it.
        quality: Of the darks; None for a pedestal that came ready.
    """
    source = prepared.pedestal
    problems = [] if quality is None else _problems_among(source, quality)
    problems += _problems_of_constant_darks(prepared, dark_noise)
    problems += _problems_of_noise(prepared, dark_noise)
    if isinstance(source, DarkFrames):
        problems += _problems_of_settings(prepared, source)
    return problems


def _problems_among(source: object, quality: DarkQuality) -> list[str]:
    problems = []
    if quality.outliers > _SHARE_OF_BAD_PIXELS:
        problems.append(
            f"{quality.outliers:.1%} of the pixels have values more than {OUTLIER_WIDTHS:g} noise widths from their "
            f"mean in the darks ({source}), as if photons were among them: their noise is too high, and photons are "
            "lost there; give darks taken with the beam off"
        )
    if abs(quality.step) > _STEP or quality.pixels_stepped > _SHARE_OF_BAD_PIXELS:
        problems.append(
            f"the pedestal moved while the darks ({source}) were taken: by {quality.step:+.2f} noise widths in the "
            f"median pixel, and by more than one in {quality.pixels_stepped:.1%} of all; the mean fits none of the "
            "frames then, so give darks taken in one go, shortly before the run"
        )
    return problems


def _problems_of_constant_darks(prepared: PreparedRun, dark_noise: npt.NDArray[np.floating[Any]]) -> list[str]:
    masked = masked_in(prepared)
    noise = dark_noise if masked is None else dark_noise[~masked]
    constant = float(np.mean(noise == 0)) if noise.size else 0.0
    if constant <= _SHARE_CONSTANT:
        return []
    return [
        f"{constant:.0%} of the pixels have no noise at all in the pedestal ({prepared.pedestal}), as if they were "
        "saturated or not read out: every value above their mean counts as a photon there, or none can; give darks of "
        "the working detector, or a --mask"
    ]


def _problems_of_noise(prepared: PreparedRun, dark_noise: npt.NDArray[np.floating[Any]]) -> list[str]:
    """Hold the noise of the darks against that of the first frames, on a sample of pixels."""
    plan = prepared.plan
    counts = dark_noise > 0
    if (masked := masked_in(prepared)) is not None:
        counts &= ~masked
    pixels = np.flatnonzero(counts)
    # Noise of less than an ADU disappears when it is rounded.
    if plan.n_frames < FEWEST_FRAMES or len(pixels) < _FEWEST_PIXELS or np.median(dark_noise.flat[pixels]) < 1:
        return []
    if len(pixels) > _PIXELS:
        pixels = np.sort(np.random.default_rng(0).choice(pixels, _PIXELS, replace=False))
    try:
        values = _first_values(prepared, pixels)
    except ArchiveError:  # The batch that they belong to will say so.
        return []
    in_gain = ~in_another_gain(values, prepared.options.parameters.gain_bits).any(axis=0)
    values, pixels = values[:, in_gain], pixels[in_gain]
    if len(pixels) < _FEWEST_PIXELS:
        return []
    measured = noise_of_frames(values)
    ratio = measured.noise / dark_noise.flat[pixels]
    median = float(np.median(ratio))
    off = ratio < _PIXEL_QUIETER
    is_noisier = False
    if measured.crowded.mean() < _CROWDED:
        off |= (ratio > _PIXEL_NOISIER) & ~measured.crowded
        is_noisier = median > _NOISIER
    if median >= _QUIETER and not is_noisier and off.mean() <= _SHARE_OF_PIXELS_OFF:
        return []
    consequence = "photons are lost" if median < 1 else "clusters are made up"
    return [
        f"the noise of the first frames is {median:.2f} times that of the pedestal ({prepared.pedestal}) in the median "
        f"pixel, and {off.mean():.1%} of the pixels are off by more than 2.5 times: {consequence}; give darks of the "
        "same gain and exposure, with the beam off"
    ]


def _first_values(prepared: PreparedRun, pixels: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """The values of some pixels in the first frames, (frame, pixel)."""
    archive, first = prepared.archive, prepared.plan.first_frame
    stop = min(first + _FRAMES, prepared.plan.stop_frame)
    values = np.empty((stop - first, len(pixels)), archive.dtype)
    for start, end in archive.blocks(first, stop, max_bytes=BLOCK_BYTES):
        frames = np.empty((end - start, *archive.frame_shape), archive.dtype)
        archive.read(start, end, frames)
        values[start - first : end - first] = frames.reshape(len(frames), -1)[:, pixels]
    return values


def _problems_of_settings(prepared: PreparedRun, source: DarkFrames) -> list[str]:
    """Compare gain and exposure where both the darks and the frames state them."""
    if source.array == "frames":
        return []
    archive, other = prepared.archive, source.address.open()
    assert other.dark is not None
    of_frames = {**archive.attrs, **archive.frames.attrs.asdict()}
    of_darks = {**other.attrs, **other.dark.attrs.asdict()}
    return [
        f"the darks ({source}) were taken with {name} {of_darks[name]!r:.40}, and the frames of "
        f"{archive.address.path} with {of_frames[name]!r:.40}: give darks of the same settings"
        for name in sorted(_different(of_frames, of_darks))
    ]


def _different(of_frames: Mapping[str, Any], of_darks: Mapping[str, Any]) -> list[str]:
    def same(a: Any, b: Any) -> bool:
        numbers = all(isinstance(value, int | float) for value in (a, b))
        return math.isclose(a, b, rel_tol=1e-6) if numbers else a == b

    both = of_frames.keys() & of_darks.keys()
    return [name for name in both if _SETTINGS.search(name) and not same(of_frames[name], of_darks[name])]


def masked_in(prepared: PreparedRun) -> npt.NDArray[np.bool_] | None:
    """The pixels that a run leaves out, bool (y, x), or None."""
    mask = prepared.pixel_mask
    return None if mask is None else masked_pixels(mask, prepared.archive.frame_shape)
