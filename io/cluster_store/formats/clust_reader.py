"""Reading a `.clust` file that may be anything: nothing is believed before it has been checked."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError
from cluster_store.formats.clust_layout import HEADER, ClustLayout

BYTES_AT_ONCE = 16 << 20


@dataclass(frozen=True)
class FrameHeader:
    """What the file says of a frame, and where."""

    offset: int
    frame_number: int
    n: int


@dataclass(frozen=True, eq=False)
class ClustBlock:
    """Successive frames of the file.

    Attributes:
        frame_number: (frame) int64.
        n: (frame) uint32: clusters.
        records: (cluster) with the fields `x`, `y`, `signal` (cluster_y, cluster_x).
    """

    frame_number: npt.NDArray[np.int64]
    n: npt.NDArray[np.uint32]
    records: npt.NDArray[Any]


class ClustFile:
    """A `.clust` file.

    Args:
        path: The file.
        layout: The window's size and the type of its values, which the file does not say.
        frame_shape: Rows and columns of the detector, in which every cluster has to lie.

    Raises:
        DatasetError: The file is not there.
    """

    def __init__(self, path: Path, layout: ClustLayout, frame_shape: tuple[int, int]) -> None:
        self.path = path
        self.layout = layout
        self.frame_shape = frame_shape
        try:
            self._size = path.stat().st_size
        except OSError as error:
            raise DatasetError(f"{path} cannot be read ({error.strerror}); check the path.") from error

    def headers(self) -> Iterator[FrameHeader]:
        """The frames, one after the other, without their clusters.

        Raises:
            DatasetError: The file is cut off, or not of this layout; the sentence says at which byte.
        """
        pixels = self.frame_shape[0] * self.frame_shape[1]
        with self.path.open("rb") as file:
            offset = 0
            while offset < self._size:
                number, n = self._header(file, offset)
                if number < 0:
                    raise self._damage(offset, f"the frame number is {number}")
                if n > pixels:
                    raise self._damage(offset, f"frame {number} has {n} clusters, more than the detector has pixels")
                end = offset + HEADER.itemsize + n * self.layout.record.itemsize
                if end > self._size:
                    raise self._damage(offset, f"frame {number} has {n} clusters, and the file ends within them")
                yield FrameHeader(offset, number, n)
                file.seek(end)
                offset = end

    def blocks(self) -> Iterator[ClustBlock]:
        """The frames with their clusters, about `BYTES_AT_ONCE` at a time, at least one frame.

        Raises:
            DatasetError: As for `headers`, or a cluster outside the detector.
        """
        with self.path.open("rb") as file:
            waiting: list[FrameHeader] = []
            for header in self.headers():
                if waiting and header.offset - waiting[0].offset > BYTES_AT_ONCE:
                    yield self._block(file, waiting)
                    waiting = []
                waiting.append(header)
            if waiting:
                yield self._block(file, waiting)

    def _header(self, file: BinaryIO, offset: int) -> tuple[int, int]:
        content = file.read(HEADER.itemsize)
        if len(content) < HEADER.itemsize:
            raise self._damage(offset, "the file ends within a frame's first 8 bytes")
        return int.from_bytes(content[:4], "little", signed=True), int.from_bytes(content[4:], "little")

    def _block(self, file: BinaryIO, headers: list[FrameHeader]) -> ClustBlock:
        first, last = headers[0], headers[-1]
        n = np.array([header.n for header in headers], np.uint32)
        file.seek(first.offset)
        length = last.offset + HEADER.itemsize + last.n * self.layout.record.itemsize - first.offset
        content = file.read(length)
        if len(content) < length:
            raise self._damage(first.offset + len(content), "the file became shorter while it was read")
        records = self.layout.unpack(content, n)
        outside = (records["y"] >= self.frame_shape[0]) | (records["x"] >= self.frame_shape[1])
        if outside.any():
            row = int(np.argmax(outside))
            frame = int(np.searchsorted(np.cumsum(n, dtype=np.int64), row, side="right"))
            offset = first.offset + HEADER.itemsize * (frame + 1) + self.layout.record.itemsize * row
            x, y = int(records["x"][row]), int(records["y"][row])
            rows, columns = self.frame_shape
            raise self._damage(offset, f"a cluster lies at x = {x}, y = {y}, outside a detector of {rows}x{columns}")
        return ClustBlock(np.array([header.frame_number for header in headers], np.int64), n, records)

    def _damage(self, offset: int, what: str) -> DatasetError:
        rows, columns = self.frame_shape
        return DatasetError(
            f"{self.path}, byte {offset}: {what}; the file is damaged, or is not of {self.layout} windows on "
            f"{rows}x{columns} pixels."
        )


def is_clust(path: Path) -> bool:
    """Whether a file has the structure of a `.clust` file of any layout in use, from its first byte to its last.

    Successive frames have different numbers, so that a file of zeros is none.
    """
    if not path.is_file() or path.is_symlink() or path.stat().st_size == 0:
        return False
    sizes = [(rows, columns) for rows in range(1, 10) for columns in range(1, 10)]
    # float32 is laid out as int32 is.
    return any(_follows(path, ClustLayout(size, dtype)) for dtype in ("int32", "int16", "float64") for size in sizes)


def _follows(path: Path, layout: ClustLayout) -> bool:
    try:
        numbers = (header.frame_number for header in ClustFile(path, layout, (2**16, 2**16)).headers())
        return all(first != second for first, second in pairwise(numbers))
    except DatasetError:
        return False
