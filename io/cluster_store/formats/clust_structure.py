"""How the frames of a `.clust` file follow one another, if it has records of a certain length."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from cluster_store.formats.clust_layout import DTYPES, HEADER, ClustLayout

ByteOrder = Literal["little", "big"]

MOST_PIXELS = 2**32
"""Of a detector whose positions are uint16."""


@dataclass(frozen=True)
class FrameHeader:
    """What the file says of a frame, and where."""

    offset: int
    frame_number: int
    n: int


class DepartureError(Exception):
    """The file departs from the structure at byte `offset`: `what` says how, `at_end` whether by ending too early."""

    def __init__(self, offset: int, what: str, at_end: bool = False) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what
        self.at_end = at_end


def walk(path: Path, record_bytes: int, pixels: int, byte_order: ByteOrder = "little") -> Iterator[FrameHeader]:
    """The frames, one after the other, without their clusters.

    Args:
        path: The file.
        record_bytes: Of one cluster.
        pixels: No frame has more clusters than these.
        byte_order: Of its numbers.

    Raises:
        DepartureError: The file is cut off, or not of this structure.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        offset = 0
        while offset < size:
            content = file.read(HEADER.itemsize)
            if len(content) < HEADER.itemsize:
                raise DepartureError(offset, "the file ends within a frame's first 8 bytes", at_end=True)
            number = int.from_bytes(content[:4], byte_order, signed=True)
            n = int.from_bytes(content[4:], byte_order)
            if number < 0:
                raise DepartureError(offset, f"the frame number is {number}")
            if n > pixels:
                raise DepartureError(offset, f"frame {number} has {n} clusters, more than the detector has pixels")
            end = offset + HEADER.itemsize + n * record_bytes
            if end > size:
                what = f"frame {number} has {n} clusters, and the file ends within them"
                raise DepartureError(offset, what, at_end=True)
            yield FrameHeader(offset, number, n)
            file.seek(end)
            offset = end


def fitting_layouts(path: Path, byte_order: ByteOrder = "little", odd: bool = False) -> list[ClustLayout]:
    """Every layout, of windows up to 9×9, in which the file is whole; files of which that can't be said have none.

    Successive frames have different numbers, so that a file of zeros is none.

    Args:
        path: The file.
        byte_order: Of its numbers.
        odd: Only windows with odd numbers of rows and columns, as a dataset has them.
    """
    if not path.is_file() or path.is_symlink() or path.stat().st_size == 0:
        return []
    sides = range(1, 10, 2 if odd else 1)
    layouts = [ClustLayout((rows, columns), dtype) for dtype in DTYPES for rows in sides for columns in sides]
    lengths = {layout.record.itemsize for layout in layouts}
    whole = {length for length in lengths if _is_whole(path, length, byte_order)}
    return [layout for layout in layouts if layout.record.itemsize in whole]


def is_clust(path: Path) -> bool:
    """Whether a file has the structure of a `.clust` file of any layout in use, from its first byte to its last."""
    return bool(fitting_layouts(path))


def _is_whole(path: Path, record_bytes: int, byte_order: ByteOrder) -> bool:
    try:
        numbers = (header.frame_number for header in walk(path, record_bytes, MOST_PIXELS, byte_order))
        return all(first != second for first, second in pairwise(numbers))
    except DepartureError:
        return False
