"""One look for every picture of a report: colours by stage, what it is drawn on, and how it becomes SVG and PNG."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Settings = Any  # Of matplotlib's settings, whose names are its own.

INK, FAINT, ACCENT, PAPER = "#1b2a3a", "#8a97a5", "#c8102e", "#ffffff"
# Apart in hue and in lightness, for those who see few colours and for paper.
STAGES = {
    "read": "#4c78a8",
    "decode": "#e39c37",
    "read + decode": "#e39c37",
    "find": "#3a8f5c",
    "H2D": "#6fb98f",
    "kernel": "#1f6b45",
    "D2H": "#b5d99c",
    "write": "#8c6bb1",
    "idle": "#c9ced4",
}
PARTS = {
    "in the stages": "#f0c48a",
    "at the bound": "#3a8f5c",
    "overlap lost": "#a6d3b5",
    "below ceilings": "#e39c37",
    "start-up": "#4c78a8",
    "waiting": "#c9ced4",
    "stragglers": "#8a97a5",
    "finishing": "#8c6bb1",
}
# Of a character of DejaVu Sans, in parts of the font's size: of ordinary text, and of bold.
_CHARACTER, _BOLD = 0.56, 0.66
_SETTINGS: _Settings = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "photonflow",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Paper:
    """What a picture is drawn on.

    Args:
        width: In inches. Text has the size that it says where the picture is shown as wide as that.
    """

    width: float

    @property
    def is_narrow(self) -> bool:
        """Whether there is no room beside what is drawn, but only above and below."""
        return self.width < 5

    def figure(self, height: float) -> tuple[Figure, Axes]:
        """An empty figure of this height in inches, and its axes; to be drawn on in :func:`look`."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width, height), layout="constrained", facecolor=PAPER)
        axes = figure.add_subplot()
        axes.tick_params(length=3)
        return figure, axes

    def wrapped(self, text: str, points: float = 10, *, bold: bool = False) -> str:
        """The text in lines that fit beside the ticks of an axis, where they fit."""
        characters = (self.width - 0.6) * 72 / points / (_BOLD if bold else _CHARACTER)
        return textwrap.fill(text, int(characters))

    def entitle(self, axes: Axes, text: str) -> None:
        """Give the axes a title; a narrow picture is shown under a heading that says as much."""
        if not self.is_narrow:
            axes.set_title(text)


# On a slide the text is not small, and on a phone it is still to be read: 343 of its 375 pixels are for pictures.
PAGE, PHONE = Paper(7.0), Paper(3.55)


@contextmanager
def look() -> Iterator[None]:
    """Within, everything that is drawn and saved looks like the rest of the report."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        yield


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure."""
    with look(), io.BytesIO() as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG, sharp on a slide and in print."""
    with look(), io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=200)
        return file.getvalue()


def smallest(figure: Figure) -> tuple[str, bytes]:
    """The figure as it is small: its kind, for a browser, and its bytes."""
    # A map is an image of its pixels either way, and as SVG many times larger.
    if not any(axes.images for axes in figure.axes):
        return "svg+xml", svg(figure)
    from PIL import Image

    # The colours of a map are 256 at most, and its letters are grey: as an image of so many it is a third.
    with Image.open(io.BytesIO(png(figure))) as drawn, io.BytesIO() as file:
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, format="PNG", optimize=True)
        return "png", file.getvalue()
