"""The bytes of a `.clust` file, as the aare library and slsDetectorCalibration write it.

Little-endian, without a header of the file. Of each frame: int32 frame number, uint32 n, then n records of uint16 x
(column), uint16 y (row) and the window row by row. A record of float64 has its window from byte 8 on, as a C++ compiler
aligns it; bytes 4 to 7 are zero where we write them and not looked at where we read.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError

HEADER = np.dtype([("frame_number", "<i4"), ("n", "<u4")])
LARGEST_FRAME_NUMBER = 2**31 - 1
LARGEST_POSITION = 2**16 - 1
_LARGEST_SIDE = 999
DTYPES = ("int16", "int32", "float32", "float64")


@dataclass(frozen=True)
class ClustLayout:
    """What the file itself does not say.

    Args:
        cluster_size: Rows and columns of the window.
        dtype: The type of its values, one of `DTYPES`.
    """

    cluster_size: tuple[int, int]
    dtype: str

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise DatasetError(f"A .clust file holds {', '.join(DTYPES)}, and not {self.dtype}; choose one of them.")
        if not all(1 <= side <= _LARGEST_SIDE for side in self.cluster_size):
            rows, columns = self.cluster_size
            raise DatasetError(f"Windows of {rows}x{columns} pixels can't be; give sides of 1 to {_LARGEST_SIDE}.")

    def __str__(self) -> str:
        return f"{self.cluster_size[0]}x{self.cluster_size[1]} {self.dtype}"

    @cached_property
    def record(self) -> np.dtype[Any]:
        """One cluster."""
        value = np.dtype(self.dtype).newbyteorder("<")
        start = 8 if self.dtype == "float64" else 4
        window = value.itemsize * self.cluster_size[0] * self.cluster_size[1]
        return np.dtype(
            {
                "names": ["x", "y", "signal"],
                "formats": ["<u2", "<u2", (value, self.cluster_size)],
                "offsets": [0, 2, start],
                "itemsize": start + window,
            }
        )

    @cached_property
    def _word(self) -> np.dtype[Any]:
        """The largest unit of which both header and record are made."""
        return np.dtype("<u4" if self.record.itemsize % 4 == 0 else "<u2")

    def pack(self, headers: npt.NDArray[Any], records: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Successive frames as they lie in the file: each header, and after it as many records as it says."""
        is_header = self._is_header(headers["n"])
        words = np.empty(len(is_header), self._word)
        words[is_header] = headers.view(self._word)
        words[~is_header] = records.view(self._word)
        return words

    def unpack(self, frames: bytes, n: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
        """The records of successive frames that hold `n` clusters each."""
        words = np.frombuffer(frames, self._word)
        return words[~self._is_header(n)].view(self.record)

    def _is_header(self, n: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        header, record = (dtype.itemsize // self._word.itemsize for dtype in (HEADER, self.record))
        ends = np.cumsum(n, dtype=np.int64) * record + header * np.arange(1, len(n) + 1)
        starts = ends - n.astype(np.int64) * record - header
        is_header = np.zeros(int(ends[-1]) if len(n) else 0, np.bool_)
        for word in range(header):
            is_header[starts + word] = True
        return is_header
