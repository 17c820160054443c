"""One look for every picture of a report: colours by stage, sizes, and how pictures become SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
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
    "at the bound": "#3a8f5c",
    "overlap lost": "#a6d3b5",
    "below ceilings": "#e39c37",
    "start-up": "#4c78a8",
    "waiting": "#c9ced4",
    "stragglers": "#8a97a5",
    "finishing": "#8c6bb1",
}
WIDTH = 7.0  # Inches: on a phone the text is still to be read, on a slide it is not small.
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


@contextmanager
def look() -> Iterator[None]:
    """Within, everything that is drawn and saved looks like the rest of the report."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        yield


def styled(height: float) -> tuple[Figure, Axes]:
    """An empty figure of the common width and this height in inches, and its axes; to be drawn on in :func:`look`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=PAPER)
    axes = figure.add_subplot()
    axes.tick_params(length=3)
    return figure, axes


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure."""
    with io.BytesIO() as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG, sharp on a slide and in print."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=200)
        return file.getvalue()


def rows_height(n_rows: int) -> float:
    """Inches for a chart of so many horizontal bars."""
    return 1.15 + 0.4 * max(n_rows, 1)
