"""What fixes the arrays of a cluster dataset before the first cluster is found."""

from dataclasses import dataclass
from math import log2

SIGNAL_CHUNK_BYTES = 8 * 2**20
"""Aim for the size of one uncompressed chunk of `signal`."""

SIGNAL_DTYPES = ("int32", "float32")


@dataclass(frozen=True)
class DatasetLayout:
    """Sizes, types and chunks of a cluster dataset. Picklable; the same on the client and on every worker.

    Attributes:
        n_frames: Length of the dimension `frame`.
        first_frame: Position in the archive of frame 0 of the dataset.
        batch_size: Frames of one batch, however many the run has.
        frame_shape: Rows and columns of the detector, (y, x).
        cluster_size: Rows and columns of the window, (cluster_y, cluster_x), both odd.
        signal_dtype: `int32` or `float32`.
        rows_per_chunk: Clusters in one chunk of every array along `cluster`. 0 takes the power of two that brings a
            chunk of `signal` closest to 8 MiB: 262 144 for 3×3.
        cluster_list: Whether there are arrays along `cluster` at all: without them a dataset tells how many clusters
            each frame had, and what was counted of them.

    Raises:
        ValueError: A size that makes no sense, or another `signal_dtype`.
    """

    n_frames: int
    first_frame: int
    batch_size: int
    frame_shape: tuple[int, int]
    cluster_size: tuple[int, int]
    signal_dtype: str = "int32"
    rows_per_chunk: int = 0
    cluster_list: bool = True

    def __post_init__(self) -> None:
        for name, least in (("n_frames", 0), ("first_frame", 0), ("batch_size", 1), ("rows_per_chunk", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}.")
        if len(self.frame_shape) != 2 or min(self.frame_shape) < 1:
            raise ValueError(f"frame_shape is {self.frame_shape}; it must be (rows, columns), each at least 1.")
        if len(self.cluster_size) != 2 or any(side < 1 or side % 2 == 0 for side in self.cluster_size):
            raise ValueError(f"cluster_size is {self.cluster_size}; it must be (rows, columns), each odd.")
        if self.signal_dtype not in SIGNAL_DTYPES:
            raise ValueError(f"signal_dtype is {self.signal_dtype!r}; it must be one of {', '.join(SIGNAL_DTYPES)}.")
        object.__setattr__(self, "frame_shape", tuple(self.frame_shape))
        object.__setattr__(self, "cluster_size", tuple(self.cluster_size))
        if self.rows_per_chunk == 0 or not self.cluster_list:
            object.__setattr__(self, "rows_per_chunk", _rows_per_chunk(self.cluster_size))

    @property
    def position_dtype(self) -> str:
        """The type of `x` and `y`: `uint16`, or `uint32` where a side of the detector is beyond 65 535 pixels."""
        return "uint16" if max(self.frame_shape) <= 65_535 else "uint32"

    @property
    def frames_per_chunk(self) -> int:
        """Frames in one chunk of the arrays along `frame`: one batch, or the whole run where that is shorter.

        A chunk is encoded whole, so that of a batch size of 10⁹ would not fit into memory, let alone into Blosc.
        """
        return max(1, min(self.batch_size, self.n_frames))

    @property
    def n_batches(self) -> int:
        """How many batches, and so how many chunks along `frame`."""
        return -(-self.n_frames // self.batch_size)


def _rows_per_chunk(cluster_size: tuple[int, int]) -> int:
    row_bytes = 4 * cluster_size[0] * cluster_size[1]
    return int(2 ** round(log2(SIGNAL_CHUNK_BYTES / row_bytes)))
