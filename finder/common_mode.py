"""Common mode: pixels that move together from frame to frame, because they share an amplifier or a supply."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CommonMode:
    """Which pixels move together: the groups that a frame is cut into.

    A frame's common mode in a group is the lower median, over the group's unmasked pixels, of X − X0: an integer, and
    0 where every pixel is masked. The finder subtracts it before anything else. Fewer than half of a group's pixels
    may hold a photon for it to be true. The last groups of a frame may be smaller than the others.

    Args:
        rows: rows of a group; None, all rows of the frame.
        cols: columns of a group; None, all columns of the frame.

    Raises:
        ValueError: the groups are neither single rows, nor single columns, nor tiles of at least one pixel.
    """

    rows: int | None
    cols: int | None

    def __post_init__(self) -> None:
        whole_row_or_column = (self.rows, self.cols) in ((1, None), (None, 1))
        tile = all(isinstance(side, int) and not isinstance(side, bool) and side >= 1 for side in self._sides())
        if not (whole_row_or_column or tile):
            raise ValueError(
                f"a common mode of groups of {self.rows} x {self.cols} pixels: it must be CommonMode.parse of 'row', "
                "'column' or 'tile:RxC' (rows x columns)"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The common mode that `text` names: "row", "column", or "tile:RxC" for tiles of R rows and C columns.

        Raises:
            ValueError: it is none of these.
        """
        if text == "row":
            return cls(1, None)
        if text == "column":
            return cls(None, 1)
        sides = re.fullmatch(r"tile:([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
        if sides is None:
            raise ValueError(f"the common mode {text!r} is none of 'row', 'column' and 'tile:RxC', as in tile:256x256")
        return cls(int(sides[1]), int(sides[2]))

    def __str__(self) -> str:
        """What `parse` reads."""
        match (self.rows, self.cols):
            case (1, None):
                return "row"
            case (None, 1):
                return "column"
        return f"tile:{self.rows}x{self.cols}"

    def group_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of a group in frames of `shape` (y, x)."""
        rows, cols = shape
        return min(self.rows or rows, rows), min(self.cols or cols, cols)

    def _sides(self) -> tuple[int | None, int | None]:
        return self.rows, self.cols


def common_mode_levels(
    differences: NDArray[np.int64], common_mode: CommonMode, present: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The common mode of one frame, at each pixel: the plain reference.

    Args:
        differences: X − X0 of the frame (y, x).
        common_mode: the groups.
        present: (y, x), False where a pixel is masked.

    Returns:
        (y, x) int64, ADU: what is to be subtracted.
    """
    rows, cols = common_mode.group_shape((differences.shape[0], differences.shape[1]))
    levels = np.zeros_like(differences)
    for top in range(0, differences.shape[0], rows):
        for left in range(0, differences.shape[1], cols):
            group = np.s_[top : top + rows, left : left + cols]
            values = np.sort(differences[group][present[group]])
            if len(values):
                levels[group] = values[(len(values) - 1) // 2]
    return levels
