"""A table of numbers beside the clusters, as it is handed over to be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Variable(Protocol):
    """A variable of a table: a :class:`Column`, or one of xarray's."""

    @property
    def dims(self) -> tuple[Any, ...]:
        """The names of its dimensions."""

    @property
    def values(self) -> Any:
        """A NumPy array."""

    @property
    def attrs(self) -> Mapping[Any, Any]:
        """Its attributes."""


class TableLike(Protocol):
    """A :class:`Table`, or an `xarray.Dataset`."""

    @property
    def variables(self) -> Mapping[Any, Variable]:
        """Its variables and coordinates, by name."""

    @property
    def attrs(self) -> Mapping[Any, Any]:
        """Its attributes."""


@dataclass(frozen=True, eq=False)
class Column:
    """Numbers with named dimensions, as `xarray.Variable` has them.

    Args:
        dims: A name a dimension.
        values: Numeric, of as many dimensions.
        attrs: CF attributes.
    """

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if np.ndim(self.values) != len(self.dims):
            raise ValueError(f"the dimensions {self.dims} do not fit values of the shape {np.shape(self.values)}")


@dataclass(frozen=True, eq=False)
class Table:
    """What a small `xarray.Dataset` holds, for processes that write one and have no other use for xarray.

    Args:
        variables: Columns by name; a dimension's own coordinates bear its name.
        attrs: Attributes of the whole.
    """

    variables: Mapping[str, Column]
    attrs: Mapping[str, Any] = field(default_factory=dict)
