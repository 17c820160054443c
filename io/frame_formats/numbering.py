"""Frames in the order of their number; what is missing between them, and what is there twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frame_formats.source import FrameStatus

Numbers = npt.NDArray[np.uint64]
_MOST_NAMED = 5


@dataclass(frozen=True)
class Numbering:
    """What the numbers of frames say.

    Args:
        order: which frame comes where, or None if they are in order.
        numbers: (frame), in order.
        status: (frame), bits of `FrameStatus`.
        n_missing: how many numbers lie between the first and the last without a frame.
        n_duplicates: how many frames have a number that another one before them had.
        gaps: the first few, as (first missing number, last missing number).
        duplicates: the first few numbers that are there twice.
    """

    order: npt.NDArray[np.int64] | None
    numbers: Numbers
    status: npt.NDArray[np.uint8]
    n_missing: int
    n_duplicates: int
    gaps: tuple[tuple[int, int], ...]
    duplicates: tuple[int, ...]

    @staticmethod
    def of(numbers: Numbers) -> Numbering:
        """Judge the numbers of frames; frames of the same number keep their order."""
        order = None
        if len(numbers) > 1 and (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
        status = np.zeros(len(numbers), np.uint8)
        step = np.diff(numbers)
        is_duplicate, follows_gap = np.flatnonzero(step == 0) + 1, np.flatnonzero(step > 1) + 1
        # Which of two frames of one number is the right one, nobody can say.
        status[is_duplicate] |= np.uint8(FrameStatus.DUPLICATE_NUMBER)
        status[is_duplicate - 1] |= np.uint8(FrameStatus.DUPLICATE_NUMBER)
        status[follows_gap] |= np.uint8(FrameStatus.AFTER_GAP)
        gaps = tuple((int(numbers[i - 1]) + 1, int(numbers[i]) - 1) for i in follows_gap[:_MOST_NAMED])
        return Numbering(
            order,
            numbers,
            status,
            n_missing=int((step[follows_gap - 1] - np.uint64(1)).sum()),
            n_duplicates=len(is_duplicate),
            gaps=gaps,
            duplicates=tuple(int(numbers[i]) for i in is_duplicate[:_MOST_NAMED]),
        )

    def problems(self) -> list[str]:
        """Return a sentence for what is missing and one for what is there twice."""
        said = []
        if self.n_missing:
            named = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in self.gaps)
            more = " and more" if (self.status & np.uint8(FrameStatus.AFTER_GAP) != 0).sum() > len(self.gaps) else ""
            said.append(f"{self.n_missing:,} frame numbers are missing: {named}{more}")
        if self.n_duplicates:
            named = ", ".join(map(str, self.duplicates))
            more = " and more" if self.n_duplicates > len(self.duplicates) else ""
            said.append(f"{self.n_duplicates:,} frames have a number that another has: {named}{more}; all are kept")
        if self.order is not None:
            said.append("the frames are not in the order of their numbers: they are put into it")
        return said
