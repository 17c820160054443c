"""Pictures of the noise: maps of it, and its tails against the Gaussian."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workflows.dark_noise import BIN_WIDTH, FEWEST_FOR_TAILS, REACH, DarkNoise, gaussian_density
from workflows.pictures import new_figure, picture_path, pixel_map, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_noise(noise: DarkNoise, origin: str, folder: Path) -> list[str]:
    """Draw into `folder` and return the paths: the darks' noise, that of the first frames, and the tails.

    Args:
        noise: What is drawn.
        origin: The archive's name, which is in the pictures and in theirs.
        folder: Where they go; it exists.
    """
    darks = f"{noise.n_darks:,} dark frames"
    quantity = "noise, one standard deviation [ADU]"
    good = noise.counts_pixel
    pictures = [
        save(
            pixel_map(np.where(good, noise.noise, np.nan), f"Noise of {darks}", quantity, (0.5, 99.5)),
            picture_path(folder, origin, "noise_of_darks"),
            origin,
        )
    ]
    if noise.frame_noise is not None:
        figure = pixel_map(
            np.where(good, noise.frame_noise / np.where(good, noise.noise, 1), np.nan),
            "Noise of the first frames, photons left out, by that of the darks",
            "ratio; it scatters by a quarter",
            (0.5, 99.5),
        )
        pictures.append(save(figure, picture_path(folder, origin, "noise_of_frames"), origin))
    if noise.n_darks >= FEWEST_FOR_TAILS:
        pictures.append(save(_tails(noise, darks), picture_path(folder, origin, "noise_tails"), origin))
    return pictures


def _tails(noise: DarkNoise, darks: str) -> Figure:
    """How often values lie how far from their pixel's mean, beside the normal distribution."""
    figure, axes = new_figure(6.5, 4.2)
    edges = np.linspace(-REACH, REACH, len(noise.histogram) + 1)
    share = noise.histogram / max(noise.n_values, 1) / BIN_WIDTH
    axes.stairs(np.where(share > 0, share, np.nan), edges, color="tab:blue", label="measured")
    x = np.linspace(-REACH, REACH, 481)
    axes.plot(x, gaussian_density(x, noise.n_darks), color="0.35", linestyle="--", label="Gaussian")
    lowest = 1 / max(noise.n_values, 1) / BIN_WIDTH
    axes.axhline(lowest, color="0.75", linewidth=0.8)
    axes.annotate("one value", (REACH, lowest), ha="right", va="bottom", fontsize=8, color="0.45")
    axes.set_yscale("log")
    axes.set_xlim(-REACH, REACH)
    axes.set_ylim(lowest / 3, 1)
    axes.set_xticks(range(-12, 13, 2))
    axes.set_xlabel("distance from the pixel's mean [noise widths]; the outermost bins hold all beyond")
    axes.set_ylabel("share of values a noise width")
    axes.set_title(f"Tails of the noise: {darks}, {noise.n_values:,} values")
    axes.legend(frameon=False)
    return figure
