"""What a user gives beside the clusters, checked before anything is counted with it: numbers, and maps of pixels."""

from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr


def whole(name: str, value: Any, least: int) -> int:
    """`value`, if it is a whole number of at least `least`; 5.0 is one.

    Raises:
        ValueError: It is none.
    """
    try:
        number = index(int(value) if isinstance(value, float | np.floating) and value.is_integer() else value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}.") from None
    if number < least:
        raise ValueError(f"{name} is {number}; it must be at least {least}.")
    return number


def number(name: str, value: Any, least: float = -np.inf) -> float:
    """`value`, if it is a number of at least `least`, infinite ones among them.

    Raises:
        ValueError: It is none, or NaN.
    """
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = np.nan
    if isinstance(value, str) or not found >= least:
        raise ValueError(f"{name} is {value!r}; it must be a number{f' of at least {least:g}' * (least > -np.inf)}.")
    return found


def two(name: str, values: Any) -> tuple[float, float]:
    """`values`, if they are two finite numbers, the lower one first.

    Raises:
        ValueError: They are not.
    """
    try:
        low, high = (float(value) for value in values)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"{name} is {values!r}; it must be two finite numbers, the lower one first.")
    return low, high


def detector_shape(shape: Any) -> tuple[int, int]:
    """Rows and columns of a detector.

    Raises:
        ValueError: Not two whole numbers of at least 1.
    """
    try:
        rows, columns = (whole("a side", side, 1) for side in shape)
    except (TypeError, ValueError):
        raise ValueError(f"shape is {shape!r}; it must be (rows, columns), each at least 1.") from None
    return rows, columns


def pixel_map(values: Any) -> npt.NDArray[Any]:
    """The values of a map (y, x), or of one number; a DataArray that names its axes x and y in this order is turned."""
    if isinstance(values, xr.DataArray) and values.dims == ("x", "y"):
        values = values.transpose("y", "x")
    return np.asarray(values)


def real_map(name: str, values: Any) -> npt.NDArray[np.float64]:
    """`pixel_map` of real numbers.

    Raises:
        ValueError: Other ones, or none.
    """
    found = pixel_map(values)
    if found.dtype.kind not in "iuf":
        raise ValueError(f"{name} is {values!r:.60}; it must be a number or a map (y, x).")
    return found.astype(np.float64)


def require_shape_of(ds: xr.Dataset, name: str, shape: tuple[int, ...]) -> None:
    """Refuse a map of another shape than that of the detector, where the dataset tells this.

    Raises:
        ValueError: It has another one.
    """
    detector = ds.attrs.get("frame_shape")
    if detector is not None and tuple(shape) != tuple(int(side) for side in detector):
        raise ValueError(
            f"{name} has the shape {tuple(shape)}, and the detector {tuple(int(side) for side in detector)}; "
            "give a map (y, x) of this detector."
        )
