"""Pictures worth keeping: labelled axes with units, a title that says what it is, and where it comes from."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from workflows.printable import printable
from workflows.whole_files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_DPI = 150
# From this ratio of its sides on a detector is a strip, whose pixels cannot be shown square.
_STRIP = 20
_NO_LETTER = "\N{WHITE SQUARE}"
# File systems allow 255 bytes in a name, a character may take four.
_LONGEST_NAME = 50


def require_matplotlib() -> None:
    """Refuse to draw where there is nothing to draw with.

    Raises:
        RuntimeError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise RuntimeError(
            "pictures need matplotlib, which is not installed: pip install 'photonflow[report]'"
        ) from error
    matplotlib.use("agg")


def spelled(text: str) -> str:
    """Text that comes from elsewhere, as a picture spells it.

    Nothing in it is mathematics, and for a letter that the font does not have there is a box, of which nobody warns.
    """
    plain = "".join(letter if ord(letter) in _letters() else _NO_LETTER for letter in printable(text))
    return plain.replace("$", r"\$")


@cache
def _letters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure of this size in inches, and its axes."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # A strip at the bottom stays free for the line that says where the picture comes from.
    layout = ConstrainedLayoutEngine(rect=(0, 0.025, 1, 0.975))
    figure = Figure(figsize=(width, height), layout=layout)
    return figure, figure.add_subplot()


def whole_ticks(axis: Axis) -> None:
    """No ticks between whole numbers on an axis that counts."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def picture_path(folder: Path, store: str, what: str) -> Path:
    """Where a picture of a store goes: under the store's own name, so that those of several lie side by side."""
    name = Path(store).name.removesuffix(".zarr") or "store"
    return folder / f"{name[:_LONGEST_NAME]}.{what}.png"


def save(figure: Figure, path: Path, origin: str) -> str:
    """Write the picture with a small line that says where it comes from, and return its path."""
    figure.text(0.995, 0.003, spelled(origin), ha="right", va="bottom", fontsize=6, color="0.45")
    with io.BytesIO() as file:
        figure.savefig(file, dpi=_DPI)
        write_whole(path, file.getvalue())
    return str(path)


def pixel_map(
    values: npt.NDArray[Any],
    title: str,
    quantity: str,
    percentiles: tuple[float, float],
    *,
    width: float | None = None,
) -> Figure:
    """A map (y, x) over the detector: row 0 at the top, square pixels (but for strips), colours between percentiles.

    Args:
        values: (y, x); NaN is drawn grey.
        title: Of the picture; without a text it has none.
        quantity: What the colours mean, with its unit.
        percentiles: The ends of the colours: a hot pixel must not make everything else one shade.
        width: Of the picture in inches, whose colours are then explained below it; None: what suits the map.
    """
    from matplotlib import colormaps

    rows, columns = values.shape
    figure, axes = new_figure(*(_map_size(rows, columns) if width is None else _narrow_size(width, rows / columns)))
    finite = values[np.isfinite(values)]
    low, high = (float(v) for v in np.percentile(finite, percentiles)) if finite.size else (0.0, 1.0)
    if high <= low:
        low, high = (low, low + 1) if finite.size == 0 or finite.max() <= low else (low, float(finite.max()))
    colours = colormaps["viridis"].with_extremes(bad="0.8")
    aspect: Literal["equal", "auto"] = "equal" if max(rows, columns) <= _STRIP * min(rows, columns) else "auto"
    image = axes.imshow(values, vmin=low, vmax=high, cmap=colours, aspect=aspect, interpolation="nearest")
    for axis in (axes.xaxis, axes.yaxis):
        whole_ticks(axis)
    axes.set_title(title)
    axes.set_xlabel("column x [pixel]")
    axes.set_ylabel("row y [pixel], row 0 at the top")
    below, above = bool(finite.size and finite.min() < low), bool(finite.size and finite.max() > high)
    ends: dict[tuple[bool, bool], Literal["neither", "min", "max", "both"]] = {
        (False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both",
    }  # fmt: skip
    said = f"{quantity}\n(colours span the percentiles {percentiles[0]:g} to {percentiles[1]:g})"
    colour_bar(figure, axes, image, said, narrow=width is not None, extend=ends[below, above])
    return figure


def colour_bar(
    figure: Figure,
    axes: Axes,
    image: AxesImage,
    label: str,
    *,
    narrow: bool,
    extend: Literal["neither", "min", "max", "both"] = "neither",
) -> Axis:
    """What the colours of a map mean: at its right, or below it where there is no room; returns their axis."""
    place: Literal["bottom", "right"] = "bottom" if narrow else "right"
    bar = figure.colorbar(image, ax=axes, extend=extend, shrink=0.9, location=place, label=label)
    return bar.ax.xaxis if narrow else bar.ax.yaxis


def _map_size(rows: int, columns: int) -> tuple[float, float]:
    """Inches that leave little white around a map of this shape."""
    width, height = (5.0, 5.0 * rows / columns) if columns >= rows else (5.0 * columns / rows, 5.0)
    return max(width, 2.5) + 2.0, max(height, 2.2) + 0.9


def _narrow_size(width: float, ratio: float) -> tuple[float, float]:
    """Inches of a narrow picture, which is not longer than a screen, of a map so many times higher than wide."""
    return width, min(max((width - 0.8) * ratio, 1.0), 1.6 * width) + 1.5
