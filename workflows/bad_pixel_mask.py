"""The bad pixels of an archive, by its darks: found, written as a mask, told and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from finder.bad_pixels import BITS, FEWEST_DARKS, KINDS, BadPixelThresholds, DarkFigures, bad_pixels, mask_of
from finder.dark_clip import sample_of
from finder.pixel_mask import masked_pixels
from frame_archive import FrameArchive
from frame_archive.mask_files import require_room, write_mask
from workflows.facts import Fact, Section, times
from workflows.pictures import picture_path, pixel_map, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLOCK_BYTES = 32 << 20
_COLOURS = {"dead": "black", "cold": "tab:blue", "hot": "tab:red", "noisy": "tab:orange", "flickering": "magenta"}
_MARKERS = {"dead": "x", "cold": "v", "hot": "^", "noisy": "o", "flickering": "s"}
_WORDS = {
    "dead": "without noise",
    "cold": "mean more than {hot:g} widths below its neighbours'",
    "hot": "mean more than {hot:g} widths above its neighbours'",
    "noisy": "noise more than {noisy:g} widths above theirs, or far off in {far:.1%} more of the darks",
    "flickering": "keeps its level from dark to dark, by more than {flickering:g} widths",
}


@dataclass(frozen=True, eq=False)
class BadPixels:
    """The bad pixels of an archive.

    Attributes:
        figures: what the darks say.
        kinds: (y, x) bool, by kind; without those that the archive's own mask has.
        thresholds: what was too far.
        masked: (y, x) bool, the archive's own mask, or None.
    """

    figures: DarkFigures
    kinds: dict[str, npt.NDArray[np.bool_]]
    thresholds: BadPixelThresholds
    masked: npt.NDArray[np.bool_] | None

    @property
    def mask(self) -> npt.NDArray[np.uint32]:
        """NeXus bits (y, x)."""
        return mask_of(self.kinds)


def find_bad_pixels(archive: FrameArchive, thresholds: BadPixelThresholds) -> BadPixels:
    """Read some of the darks, then all of them block by block.

    Raises:
        ValueError: There are too few.
        ArchiveError: A chunk is missing or damaged.
    """
    if archive.n_dark < FEWEST_DARKS:
        raise ValueError(
            f"{archive.address.path} has {archive.n_dark or 'no'} dark frames, and it takes at least {FEWEST_DARKS} to "
            "judge single pixels: leave out --bad-pixels, or give an archive with darks"
        )
    masked = None if archive.pixel_mask is None else masked_pixels(archive.pixel_mask, archive.frame_shape)
    sample = np.concatenate([archive.read_dark(i, i + 1) for i in sample_of(archive.n_dark)])
    figures = DarkFigures.of(sample, _darks(archive), archive.gain_bits)
    return BadPixels(figures, bad_pixels(figures, thresholds, masked), thresholds, masked)


def write_bad_pixels(found: BadPixels, archive: FrameArchive, path: str, overwrite: bool) -> None:
    """Write the mask, with the thresholds and what was found in its attributes.

    Raises:
        ArchiveError: Something is there that is not to be replaced, or the place can't be written.
    """
    attrs = {
        "title": "bad pixels by their dark frames",
        "archive": archive.address.path,
        "darks": found.figures.n_darks,
        "thresholds": asdict(found.thresholds),
        "found": {kind: int(found.kinds[kind].sum()) for kind in KINDS},
    }
    write_mask(path, found.mask, attrs, overwrite)


def bad_pixels_section(found: BadPixels, path: str) -> Section:
    """The figures of a page."""
    total = int(np.count_nonzero(found.mask))
    facts = [
        Fact("darks_used", found.figures.n_darks, f"{found.figures.n_darks:,}"),
        Fact("neighbourhood", list(found.thresholds.tile), f"{times(found.thresholds.tile)} pixels"),
    ]
    for kind in KINDS:
        n, words = int(found.kinds[kind].sum()), _WORDS[kind].format(**asdict(found.thresholds))
        facts.append(Fact(kind, n, f"{n:,} {words} (bit {int(BITS[kind]).bit_length() - 1})"))
    facts.append(Fact("bad_pixels", total, f"{total:,} of {found.mask.size:,}"))
    if found.masked is not None:
        n_known = int(found.masked.sum())
        facts.append(Fact("masked_before", n_known, f"{n_known:,} by the archive's own mask, which a run adds"))
    return Section("bad pixels", [*facts, Fact("mask", path)])


def draw_bad_pixels(found: BadPixels, origin: str, folder: Path) -> str:
    """Draw a map of the noise with the bad pixels marked into `folder`, and return its path."""
    noise = np.where(found.kinds["dead"], np.nan, found.figures.noise)
    if found.masked is not None:
        noise[found.masked] = np.nan
    title = f"Bad pixels by {found.figures.n_darks:,} dark frames: {int(np.count_nonzero(found.mask)):,}"
    figure = pixel_map(noise, title, "noise, one standard deviation [ADU]", (0.5, 99.5))
    _mark(figure, found)
    return save(figure, picture_path(folder, origin, "bad_pixels"), origin)


def require_room_for_mask(path: str, archive: str, overwrite: bool) -> None:
    """Make sure, before anything is read, that a mask may be written.

    Raises:
        ValueError: It would lie inside the archive.
        ArchiveError: Something is there that is not to be replaced.
    """
    if Path(path).resolve().is_relative_to(Path(archive).resolve()):
        raise ValueError(f"{path} lies inside {archive}, where nothing foreign may lie: choose another place")
    require_room(path, overwrite)


def _mark(figure: Figure, found: BadPixels) -> None:
    """Markers of each kind, over a map that is grey so that they are seen."""
    from matplotlib import colormaps
    from matplotlib.patheffects import withStroke

    axes = figure.axes[0]
    axes.images[0].set_cmap(colormaps["gray"].with_extremes(bad="lightsteelblue"))
    for kind in KINDS:
        rows, columns = np.nonzero(found.kinds[kind])
        if len(rows):
            colour = "color" if kind == "dead" else "edgecolors"
            shown: dict[str, Any] = {colour: _COLOURS[kind], "s": 60, "marker": _MARKERS[kind], "linewidths": 1.6}
            if kind != "dead":
                shown["facecolors"] = "none"
            halo = [withStroke(linewidth=3.2, foreground="white")]
            axes.scatter(columns, rows, label=f"{kind}: {len(rows):,}", path_effects=halo, **shown)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(KINDS), frameon=False, fontsize=8)


def _darks(archive: FrameArchive) -> Iterator[npt.NDArray[Any]]:
    step = max(_BLOCK_BYTES // archive.frame_nbytes, 1)
    for start in range(0, archive.n_dark, step):
        yield archive.read_dark(start, min(start + step, archive.n_dark))
