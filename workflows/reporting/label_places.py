"""Short texts beside what they name: each where nothing is yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

# Where a text may be, seen from its point: how far in points, and which of its sides faces the point.
_PLACES: tuple[tuple[float, float, str, str], ...] = (
    (9, 0, "left", "center"),
    (-9, 0, "right", "center"),
    (0, 9, "center", "bottom"),
    (0, -9, "center", "top"),
    (7, 7, "left", "bottom"),
    (7, -7, "left", "top"),
    (-7, 7, "right", "bottom"),
    (-7, -7, "right", "top"),
    *((9.0, 14.0 * step, "left", "center") for step in (1, -1, 2, -2, 3, -3)),
    *((-9.0, 14.0 * step, "right", "center") for step in (1, -1, 2, -2, 3, -3)),
)  # fmt: skip
_MARK = 7.0  # Half the side of what a point covers, in points.


def place_labels(
    axes: Axes, labels: Sequence[tuple[float, float, str]], others: Iterable[tuple[float, float]], **font: Any
) -> None:
    """Write a text beside each point, on no other text and no point; where there is no room, none.

    Args:
        axes: Of a figure that is as large as it will be; their limits are set.
        labels: x, y and text, in the order in which they choose.
        others: Points without a text, which are kept free too.
        font: Of the texts.
    """
    from matplotlib.transforms import Bbox

    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # Only now is it known where the axes are.
    half = _MARK / 72 * figure.dpi
    points = [*((x, y) for x, y, _ in labels), *others]
    marks = [Bbox([[x - half, y - half], [x + half, y + half]]) for x, y in axes.transData.transform(points)]
    inside = axes.get_window_extent()
    taken: list[Bbox] = []
    for x, y, text in labels:
        for right, up, across, along in _PLACES:
            label = axes.annotate(
                text, (x, y), xytext=(right, up), textcoords="offset points", ha=across, va=along, in_layout=False,
                **font,
            )  # fmt: skip
            box = label.get_window_extent()
            if _is_within(box, inside) and not any(map(box.overlaps, [*marks, *taken])):
                taken.append(box.padded(2))
                break
            label.remove()


def _is_within(box: Bbox, other: Bbox) -> bool:
    return bool(other.x0 <= box.x0 and box.x1 <= other.x1 and other.y0 <= box.y0 and box.y1 <= other.y1)
