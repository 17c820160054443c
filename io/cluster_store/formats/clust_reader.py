"""Reading a `.clust` file that may be anything: nothing is believed before it has been checked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError
from cluster_store.formats.clust_guess import require_plausible, what_to_do
from cluster_store.formats.clust_layout import HEADER, ClustLayout
from cluster_store.formats.clust_structure import DepartureError, FrameHeader, walk

BYTES_AT_ONCE = 16 << 20


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
            if not S_ISREG(path.stat().st_mode):
                raise DatasetError(f"{path} is no file; give the .clust file.")
            with path.open("rb"):
                pass
        except OSError as error:
            raise self._unreadable(error) from error

    def headers(self) -> Iterator[FrameHeader]:
        """The frames, one after the other, without their clusters.

        Raises:
            DatasetError: The file is cut off, or not of this layout; the sentence says at which byte.
        """
        try:
            yield from walk(self.path, self.layout.record.itemsize, self.frame_shape[0] * self.frame_shape[1])
        except DepartureError as departure:
            cut = departure.at_end and departure.offset > 0
            raise self._damage(departure.offset, departure.what, cut) from departure
        except OSError as error:
            raise self._unreadable(error) from error

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

    def _block(self, file: BinaryIO, headers: list[FrameHeader]) -> ClustBlock:
        first, last = headers[0], headers[-1]
        n = np.array([header.n for header in headers], np.uint32)
        file.seek(first.offset)
        length = last.offset + HEADER.itemsize + last.n * self.layout.record.itemsize - first.offset
        content = file.read(length)
        if len(content) < length:
            raise self._damage(first.offset + len(content), "the file became shorter while it was read")
        records = self.layout.unpack(content, n)
        require_plausible(self.path, self.layout, records["signal"])
        outside = (records["y"] >= self.frame_shape[0]) | (records["x"] >= self.frame_shape[1])
        if outside.any():
            row = int(np.argmax(outside))
            frame = int(np.searchsorted(np.cumsum(n, dtype=np.int64), row, side="right"))
            offset = first.offset + HEADER.itemsize * (frame + 1) + self.layout.record.itemsize * row
            x, y = int(records["x"][row]), int(records["y"][row])
            rows, columns = self.frame_shape
            raise self._damage(offset, f"a cluster lies at x = {x}, y = {y}, outside a detector of {rows}x{columns}")
        return ClustBlock(np.array([header.frame_number for header in headers], np.int64), n, records)

    def _damage(self, offset: int, what: str, cut: bool = False) -> DatasetError:
        todo = what_to_do(self.path, self.layout, self.frame_shape, cut)
        return DatasetError(f"{self.path}, byte {offset}: {what}; {todo}.")

    def _unreadable(self, error: OSError) -> DatasetError:
        return DatasetError(f"{self.path} cannot be read ({error.strerror}); check the path.")
