"""The common mode of many frames, subtracted: the plain reference's integers, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from finder.common_mode import CommonMode
from finder.compiled_code import Code, compiled
from finder.frames import BLOCK_NBYTES, Frames, native_blocks
from finder.gain_bits import WORD_BITS

NARROW_REACH = 2**29  # X0 within it and X of 16 bits: no difference of them leaves 32 bits.
FAR = 2**40  # Beyond any difference.
FIRST_STRIDE = 8
STEPS_BY_DENSITY = 6  # After so many a search halves its interval: it then ends whatever the values are.
ENOUGH_EQUAL = 1 / 128  # Of a group's values, to say how dense they are.


class Search(NamedTuple):
    """What is at work while the medians of a band of rows are searched.

    Attributes:
        differences, values: of x0's type (row, x).
        trial, below, equal: of x0's type (x).
        low, high, there: int64 (group).
    """

    differences: NDArray[Any]
    values: NDArray[Any]
    trial: NDArray[Any]
    below: NDArray[Any]
    equal: NDArray[Any]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    there: NDArray[np.int64]

    @staticmethod
    def of(rows: int, width: int, n_groups: int, dtype: DTypeLike) -> Search:
        """Memory for bands of so many rows of an image of this width."""
        bands, lines = (np.zeros((2, rows, width), dtype)), np.zeros((3, width), dtype)
        return Search(*bands, *lines, *np.zeros((3, n_groups), np.int64))


class CommonModeCorrection:
    """Subtracts a pedestal's X0 and the frames' common mode. Belongs to one thread at a time.

    Args:
        common_mode: what moves together.
        x0: (y, x) int64, ADU.
        masked: (y, x), True where a pixel is masked; or None.
        gain_bits: bits above the value in a 16-bit word: a pixel in another gain has no part in its groups' medians, in
            that frame. What is left of its own value says nothing.
    """

    def __init__(
        self, common_mode: CommonMode, x0: NDArray[np.int64], masked: NDArray[np.bool_] | None, gain_bits: int = 0
    ) -> None:
        shape = x0.shape[0], x0.shape[1]
        self._group = common_mode.group_shape(shape)
        self._shift = WORD_BITS - gain_bits if gain_bits else None
        self._x0 = np.array(x0, np.int64, order="C")
        self._present = np.ones(shape, bool) if masked is None else np.ascontiguousarray(~masked)
        rows, cols = self._group
        present = np.pad(self._present, ((0, -shape[0] % rows), (0, -shape[1] % cols)))
        by_group = present.reshape(-1, rows, present.shape[1] // cols, cols)
        self._n_present: NDArray[np.int64] = by_group.sum(axis=(1, 3))
        # Where the search begins: the last frame's levels. The result does not depend on it.
        self._levels = np.zeros_like(self._n_present)

    def corrected(self, frames: Frames) -> NDArray[np.int64]:
        """X − X0 − c of the frames (frame, y, x), all at once."""
        values, first = np.empty(frames.shape, np.int64), 0
        for part in self.differences(frames, np.int64):
            values[first : first + len(part)] = part
            first += len(part)
        return values

    def differences(self, frames: Frames, dtype: DTypeLike) -> Iterator[NDArray[Any]]:
        """X − X0 − c of the frames (frame, y, x) in order, some at a time.

        Args:
            frames: of any supported integer type.
            dtype: int64, or float32, to which the integers are rounded once.
        """
        wanted = np.dtype(dtype)
        narrow = frames.dtype.itemsize <= 2 and int(np.abs(self._x0).max()) <= NARROW_REACH
        x0 = self._x0.astype(np.int32) if narrow else self._x0
        search = Search.of(self._group[0], self._x0.shape[1], self._n_present.shape[1], x0.dtype)
        step = max(1, BLOCK_NBYTES // (wanted.itemsize * self._x0.size))
        for block in native_blocks(frames):
            for first in range(0, len(block), step):
                part = np.require(block[first : first + step], requirements=["C", "W", "A"])
                result = np.empty(part.shape, wanted)
                given = (
                    part,
                    x0,
                    self._present,
                    *self._group,
                    self._n_present,
                    self._levels,
                    result,
                    self._shift,
                    search,
                )
                compiled(SUBTRACTION, *given)(*given)
                yield result


def _subtract(
    frames: Any, x0: Any, present: Any, rows: Any, cols: Any, n_present: Any, levels: Any, result: Any, shift: Any,
    at_work: Any,
) -> None:  # fmt: skip
    """result = frames − x0 − the lower median of frames − x0 over each group's pixels that are present.

    With a shift (of None no code is left), those whose value has bits from there up are not, in that frame.

    The groups of one band of rows are searched together, column by column of the image in vectors: a trial level a
    group; how many of its values are below, and how many equal; the next trial goes where the values' density says the
    median is, within what is known of it.
    """
    n_frames, height, width = frames.shape
    integer = x0.dtype.type
    highest = np.iinfo(x0.dtype).max
    far = min(FAR, highest // 2)
    n_groups = n_present.shape[1]
    differences, values, trial = at_work.differences, at_work.values, at_work.trial
    below, equal, low, high, there = at_work.below, at_work.equal, at_work.low, at_work.high, at_work.there
    for frame in range(n_frames):
        for band in range(n_present.shape[0]):
            top = band * rows
            n_rows = min(rows, height - top)
            for row in range(n_rows):
                for column in range(width):
                    difference = integer(integer(frames[frame, top + row, column]) - x0[top + row, column])
                    differences[row, column] = difference
                    # A masked pixel is above every level.
                    values[row, column] = difference if present[top + row, column] else highest
            for group in range(n_groups):
                there[group] = n_present[band, group]
            if shift is not None:
                for row in range(n_rows):
                    for column in range(width):
                        if present[top + row, column] and (np.int64(frames[frame, top + row, column]) >> shift) != 0:
                            values[row, column] = highest
                            there[column // cols] -= 1
            for group in range(n_groups):
                low[group], high[group] = -far, far
                if there[group] == 0:
                    levels[band, group] = 0
                    low[group] = high[group] = 0
                trial[group * cols : (group + 1) * cols] = integer(levels[band, group])
            searching = True
            step = 0
            while searching:
                searching = False
                below[:] = 0
                equal[:] = 0
                for row in range(n_rows):
                    for column in range(width):
                        below[column] += integer(values[row, column] < trial[column])
                        equal[column] += integer(values[row, column] == trial[column])
                for group in range(n_groups):
                    if low[group] == high[group]:
                        continue
                    left, right = group * cols, min((group + 1) * cols, width)
                    n_below, n_equal = np.int64(0), np.int64(0)
                    for column in range(left, right):
                        n_below += below[column]
                        n_equal += equal[column]
                    rank = (there[group] - 1) // 2
                    level = levels[band, group]
                    if n_below <= rank < n_below + n_equal:
                        low[group] = high[group] = level
                        continue
                    searching = True
                    if n_below > rank:
                        high[group] = level - 1
                        direction, missing = -1, n_below - rank
                    else:
                        low[group] = level + 1
                        direction, missing = 1, rank + 1 - n_below - n_equal
                    bounded = low[group] > -far and high[group] < far
                    if n_equal >= ENOUGH_EQUAL * there[group] and step < STEPS_BY_DENSITY:
                        wanted = level + direction * ((missing + n_equal - 1) // n_equal)
                    elif bounded:
                        wanted = (low[group] + high[group]) // 2
                    else:
                        wanted = level + direction * (FIRST_STRIDE << min(step, 30))
                    wanted = max(low[group], min(high[group], wanted))
                    levels[band, group] = wanted
                    trial[left:right] = integer(wanted)
                step += 1
            for row in range(n_rows):
                for group in range(n_groups):
                    level = integer(levels[band, group])
                    for column in range(group * cols, min((group + 1) * cols, width)):
                        result[frame, top + row, column] = integer(differences[row, column] - level)


def _function() -> Callable[..., Any]:
    return _subtract


SUBTRACTION = Code("subtract_common_mode", _function, ("common_mode_correction.py",), "the common mode", 8)
