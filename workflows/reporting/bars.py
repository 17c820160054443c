"""Horizontal bars, each with its name and what is said of it: beside the bar, or above it where there is no room."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workflows.pictures import spelled
from workflows.reporting.style import ACCENT, FAINT, INK, PAPER, Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_POINTS = 9
# Characters of a name: in each of its two lines beside a bar, and in its line above one.
_BESIDE, _ABOVE = 28, 44


@dataclass(frozen=True)
class Bar:
    """One of them.

    Args:
        name: What it is of.
        value: How long it is.
        said: The figures beside it.
        colour: Its colour.
        is_marked: Whether it is the one to look at.
        line_at: Where a black line crosses it.
        spread: From where to where the value may lie.
    """

    name: str
    value: float
    said: str
    colour: str
    is_marked: bool = False
    line_at: float | None = None
    spread: tuple[float, float] | None = None


def bar_chart(
    paper: Paper, bars: Sequence[Bar], label: str, *, lowest: float = 0.0, highest: float = 0.0, log: bool = False
) -> tuple[Figure, Axes]:
    """Draw bars from top to bottom.

    Args:
        paper: What they are drawn on.
        bars: They; one at least.
        label: Of the axis.
        lowest: Where the axis begins.
        highest: How far it reaches at least.
        log: Whether it is logarithmic: then there are points, for lengths from an arbitrary beginning mean nothing.
    """
    row = _row(paper, bars)
    figure, axes = paper.figure(1.15 + row.pitch * len(bars))
    places = np.arange(len(bars)) + row.middle
    if log:
        axes.set_xscale("log")
        axes.hlines(places, 0, 1, transform=axes.get_yaxis_transform(), color=FAINT, linewidth=0.4, zorder=0)
        axes.scatter([bar.value for bar in bars], places, 60, color=[bar.colour for bar in bars], zorder=3)
    else:
        axes.barh(places, [bar.value for bar in bars], row.height, color=[bar.colour for bar in bars])
    for place, bar in zip(places, bars, strict=True):
        if bar.spread is not None:
            axes.plot(bar.spread, [place, place], color=INK, linewidth=1.2)
        if bar.line_at is not None:
            reach = 0.58 * row.height
            axes.plot([bar.line_at] * 2, [place - reach, place + reach], color=INK, linewidth=1.6)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    # In the middle of the picture: names may take half of it.
    figure.supxlabel(paper.wrapped(label), fontsize="medium")
    least = max(lowest, 0.0)
    ends = [max(bar.value, bar.line_at or least, *(bar.spread or (least,))) for bar in bars]
    axes.set_xlim(lowest, max(max([*ends, least + 1e-9]) * (1.5 if log else 1.02), highest))
    if paper.is_narrow:
        _label_above(axes, bars, row)
    else:
        axes.set_yticks(places, [_beside(bar.name) for bar in bars])
        if log:
            _label_beside(axes, places.tolist(), bars)
        else:
            texts = [
                axes.text(end, place, f"  {bar.said}", va="center", in_layout=False, **_font(bar))
                for end, place, bar in zip(ends, places, bars, strict=True)
            ]
            _make_room(figure, axes, texts, ends)
    return figure, axes


def _beside(name: str) -> str:
    return "\n".join(map(spelled, textwrap.wrap(name, _BESIDE, max_lines=2, placeholder="…")))


@dataclass(frozen=True)
class _Row:
    """How a bar and its labels lie.

    Args:
        pitch: Inches from one bar to the next.
        middle: Of a bar, in pitches below its row's middle.
        height: Of a bar, likewise.
        lines: Of labels above it.
    """

    pitch: float
    middle: float
    height: float
    lines: int


def _row(paper: Paper, bars: Sequence[Bar]) -> _Row:
    if not paper.is_narrow:
        return _Row(0.4, 0.0, 0.62, 0)
    # Where a name and what is said are too long for a line together, each has its own.
    lines = 2 if max(len(bar.name) + len(bar.said) for bar in bars) > _ABOVE else 1
    pitch = 0.3 + 0.16 * lines
    return _Row(pitch, 0.5 - 0.11 / pitch, 0.17 / pitch, lines)


def _label_above(axes: Axes, bars: Sequence[Bar], row: _Row) -> None:
    """The name at the left, what is said at the right."""
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    for place, bar in enumerate(bars):
        above = place + row.middle - row.height / 2 - 0.03
        name = spelled(textwrap.shorten(bar.name, _ABOVE, placeholder="…"))
        axes.text(0, above - (row.lines - 1) * 0.16 / row.pitch, name, va="bottom", transform=across, **_font(bar))
        axes.text(1, above, bar.said, va="bottom", ha="right", transform=across, **_font(bar))


def _font(bar: Bar) -> dict[str, Any]:
    return {
        "fontsize": _POINTS,
        "weight": "bold" if bar.is_marked else "normal",
        "color": ACCENT if bar.is_marked else INK,
    }


def _label_beside(axes: Axes, places: Sequence[float], bars: Sequence[Bar]) -> None:
    """What is said of a point on a logarithmic axis: at that of its sides where there is more room."""
    middle = np.sqrt(np.prod(axes.get_xlim()))
    for place, bar in zip(places, bars, strict=True):
        low, high = bar.spread or (bar.value, bar.value)
        is_left = bar.value > middle
        axes.annotate(
            bar.said, (min(low, bar.value) if is_left else max(high, bar.value), place),
            xytext=(-8 if is_left else 8, 0), textcoords="offset points", ha="right" if is_left else "left",
            va="center", in_layout=False, bbox={"facecolor": PAPER, "pad": 1, "linewidth": 0}, **_font(bar),
        )  # fmt: skip


def _make_room(figure: Figure, axes: Axes, texts: Sequence[Text], ends: Sequence[float]) -> None:
    """Move the end of the axis so far that every text that begins at the end of its bar is within the axes."""
    figure.draw_without_rendering()  # Only now is it known how wide a text is.
    width = axes.get_window_extent().width
    first, last = axes.get_xlim()
    needed = [
        (where - first) / max(1 - 1.04 * text.get_window_extent().width / width, 0.2)
        for where, text in zip(ends, texts, strict=True)
    ]
    axes.set_xlim(first, first + max([last - first, *needed]))
