"""Pictures of a frame archive: its pedestal and noise, or else its first frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from finder import Pedestal
from frame_archive import FrameArchive
from workflows.pictures import picture_path, pixel_map, save

DARKS_USED = 1000


def draw_archive(archive: FrameArchive, folder: Path) -> list[str]:
    """Draw into `folder` and return the paths: the mean and the noise of the darks, without darks the first frame.

    Raises:
        ArchiveError: A chunk is missing or damaged.
    """
    origin = Path(archive.address.path).name
    if archive.n_dark >= 2:
        n = min(archive.n_dark, DARKS_USED)
        pedestal = Pedestal.from_dark(archive.read_dark(0, n))
        of = f"{n:,} dark frames" + (f" (the first of {archive.n_dark:,})" if n < archive.n_dark else "")
        mean = pixel_map(_shown(pedestal.mean, archive), f"Pedestal: mean of {of}", "pedestal [ADU]", (0.5, 99.5))
        noise = pixel_map(
            _shown(pedestal.noise, archive),
            f"Noise: standard deviation of {of}",
            "noise, one standard deviation [ADU]",
            (0.5, 99.5),
        )
        return [
            save(mean, picture_path(folder, origin, "dark_mean"), origin),
            save(noise, picture_path(folder, origin, "dark_noise"), origin),
        ]
    if archive.n_frames == 0:
        return []
    frame = np.empty((1, *archive.frame_shape), archive.dtype)
    archive.read(0, 1, frame)
    number = int(archive.frame_numbers(0, 1)[0])
    figure = pixel_map(_shown(frame[0], archive), f"First frame (number {number:,})", "raw value [ADU]", (0.5, 99.5))
    return [save(figure, picture_path(folder, origin, "first_frame"), origin)]


def _shown(plane: npt.NDArray[np.generic], archive: FrameArchive) -> npt.NDArray[np.float64]:
    """The plane with masked pixels left blank."""
    shown = plane.astype(np.float64)
    if archive.pixel_mask is not None:
        shown[(archive.pixel_mask & 0xFFFF) != 0] = np.nan
    return shown
