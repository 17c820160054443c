"""What a `.clust` file probably is that is not what was said of it: it has no header that would tell."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError
from cluster_store.formats.clust_layout import ClustLayout
from cluster_store.formats.clust_structure import fitting_layouts

# Of so many values nearly all must say it.
_LEAST_VALUES, _NEARLY_ALL = 9, 0.99
# Integers that large, and floats that small, are no signals in ADU.
_LARGE, _SMALL = 2**24, 2**23


def what_to_do(path: Path, layout: ClustLayout, frame_shape: tuple[int, int], cut: bool = False) -> str:
    """Advice on a file that is not of `layout`, or with `cut` is so up to an early end: the likeliest cause first."""
    said = f"{layout} windows on {frame_shape[0]}x{frame_shape[1]} pixels"
    found = fitting_layouts(path, odd=True)
    if any(one.record.itemsize == layout.record.itemsize for one in found):
        return f"it is whole as a file of {layout} windows, so --frame-shape is too small, or --cluster-size is another"
    if found:
        return f"it is not of {said}, and whole as one of {_names(found)}: give --cluster-size and --dtype so"
    if fitting_layouts(path, "big", odd=True):
        return "its numbers are big-endian, and those of a .clust file little-endian: swap the bytes of each first"
    if cut:
        return f"it is cut off there, or not of {said} (give --cluster-size and --dtype as it was written)"
    return f"it is not of {said} (give --cluster-size and --dtype as it was written), or it is cut off or damaged"


def require_plausible(path: Path, layout: ClustLayout, signal: npt.NDArray[Any]) -> None:
    """Refuse windows whose values were plainly written as the other type of four bytes.

    Args:
        path: The file.
        layout: What was said of it.
        signal: Windows (cluster, cluster_y, cluster_x) as read so.

    Raises:
        DatasetError: They were; the sentence says which type to give.
    """
    if layout.dtype not in ("int32", "float32"):
        return
    other = "float32" if layout.dtype == "int32" else "int32"
    values = np.ascontiguousarray(signal)
    integers, floats = (values.view(f"<{kind}").reshape(-1) for kind in ("i4", "f4"))
    integers, floats = integers[integers != 0], floats[integers != 0]
    if len(integers) < _LEAST_VALUES:
        return
    size = np.abs(integers.astype(np.int64))
    with np.errstate(invalid="ignore"):
        of_floats = (size > _LARGE) & (np.abs(floats) > 1e-6) & (np.abs(floats) < 1e9)
    wrong = of_floats if layout.dtype == "int32" else size < _SMALL
    if wrong.mean() > _NEARLY_ALL:
        raise DatasetError(
            f"{path} was read as {layout} windows, and its values are those of {other}; give --dtype {other}."
        )


def _names(layouts: list[ClustLayout]) -> str:
    """`5x5 int32 or float32`: square windows, if there are any, for these are in use."""
    square = [one for one in layouts if one.cluster_size[0] == one.cluster_size[1]] or layouts
    by_size: dict[tuple[int, int], list[str]] = {}
    for one in square:
        by_size.setdefault(one.cluster_size, []).append(one.dtype)
    return ", ".join(f"{rows}x{columns} {' or '.join(types)}" for (rows, columns), types in by_size.items())
