"""Pictures of a frame archive: the mean and the noise of its darks, or else of its first frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import DarkSums
from finder.dark_quality import mean_and_noise
from finder.gain_bits import in_another_gain
from finder.noise_of_frames import FEWEST_FRAMES, noise_of_frames
from frame_archive import FrameArchive
from workflows.pictures import picture_path, pixel_map, save

DARKS_USED, FRAMES_USED = 1000, 64
_PERCENTILES = (0.5, 99.5)


def draw_archive(archive: FrameArchive, folder: Path) -> list[str]:
    """Draw into `folder` and return the paths.

    The mean and the noise of the darks; without darks those of the first frames, and the first frame. Values in another
    gain are left out.

    Raises:
        ArchiveError: A chunk is missing or damaged.
    """
    origin = Path(archive.address.path).name
    if archive.n_dark >= 2:
        n = min(archive.n_dark, DARKS_USED)
        sums = DarkSums.of(archive.read_dark(0, n), gain_bits=archive.gain_bits)
        mean, noise = mean_and_noise(sums)
        of = f"{n:,} dark frames" + (f" (the first of {archive.n_dark:,})" if n < archive.n_dark else "")
        none = sums.n_values == 0
        pictures = [
            ("dark_mean", mean, f"Pedestal: mean of {of}", "pedestal [ADU]"),
            ("dark_noise", noise, f"Noise: standard deviation of {of}", "noise, one standard deviation [ADU]"),
        ]
    else:
        if archive.n_frames == 0:
            return []
        frames = np.empty((min(archive.n_frames, FRAMES_USED), *archive.frame_shape), archive.dtype)
        archive.read(0, len(frames), frames)
        number = int(archive.frame_numbers(0, 1)[0])
        none = np.zeros(archive.frame_shape, bool)
        pictures = [("first_frame", frames[0], f"First frame (number {number:,})", "raw value [ADU]")]
        if len(frames) > 1:
            none = in_another_gain(frames, archive.gain_bits).all(axis=0)
            pictures += _of_frames(frames, archive.gain_bits)
    return [
        save(
            pixel_map(_shown(plane, archive, none), title, quantity, _PERCENTILES),
            picture_path(folder, origin, name),
            origin,
        )
        for name, plane, title, quantity in pictures
    ]


def _of_frames(frames: npt.NDArray[Any], gain_bits: int) -> list[tuple[str, npt.NDArray[Any], str, str]]:
    """Mean and noise of frames that may hold photons."""
    mean, noise = mean_and_noise(DarkSums.of(frames, gain_bits=gain_bits))
    of, how = f"the first {len(frames):,} frames", "standard deviation, photons and all"
    # Of the lower values alone, and of few frames it is not known; a switched value is not a lower one.
    if len(frames) >= FEWEST_FRAMES and not in_another_gain(frames, gain_bits).any():
        how = "from the lower values, photons left out"
        noise = noise_of_frames(frames.reshape(len(frames), -1)).noise.reshape(noise.shape)
    return [
        ("frames_mean", mean, f"Mean of {of}, photons and all", "raw value [ADU]"),
        ("frames_noise", noise, f"Noise of {of}, {how}", "noise, one standard deviation [ADU]"),
    ]


def _shown(
    plane: npt.NDArray[np.generic], archive: FrameArchive, none: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """The plane with masked pixels, and those without values, left blank."""
    shown = plane.astype(np.float64)
    shown[none] = np.nan
    if archive.pixel_mask is not None:
        shown[(archive.pixel_mask & 0xFFFF) != 0] = np.nan
    return shown
