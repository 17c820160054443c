"""The clusters of a finished dataset, block by block of frames, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.metadata import ArrayV3Metadata

from cluster_store.arrays import StorePath
from cluster_store.chunks import missing_chunks, stored_keys
from cluster_store.damage import reading
from cluster_store.dataset_store import DatasetStore
from cluster_store.errors import DatasetError
from cluster_store.run_identity import open_store
from cluster_store.schema import cluster_variables, frame_variables
from cluster_store.soundness import require_sound
from cluster_store.status import read_layout, require_cluster_list, require_complete

ROWS_AT_ONCE = 1 << 19
"""About how many clusters a block holds at most: 23 MB of 3×3 windows."""

FRAMES_AT_ONCE = 1 << 16

Array = zarr.Array[ArrayV3Metadata]


@dataclass(frozen=True)
class FrameSpan:
    """Frames `[start, stop)` of a dataset, counted along its dimension `frame`, and how many clusters they hold."""

    start: int
    stop: int
    n_clusters: int

    @property
    def n_frames(self) -> int:
        """How many frames."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class FrameBlock:
    """Successive frames of one batch, and their clusters.

    Attributes:
        first: Position of the first along the dataset's `frame`.
        batch: The batch they are of.
        n_clusters: (frame) uint32.
        frame_number: (frame) uint64, the archive's numbers.
        frame_status: (frame) uint8.
        frame_index: (cluster) uint32, positions along the dataset's `frame`.
        y, x: (cluster) row and column of the centre.
        signal: (cluster, cluster_y, cluster_x), ADU.
    """

    first: int
    batch: int
    n_clusters: npt.NDArray[np.uint32]
    frame_number: npt.NDArray[np.uint64]
    frame_status: npt.NDArray[np.uint8]
    frame_index: npt.NDArray[np.uint32]
    y: npt.NDArray[np.unsignedinteger[Any]]
    x: npt.NDArray[np.unsignedinteger[Any]]
    signal: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.frame_index)


class StoredClusters:
    """A finished dataset, to be read from its first cluster to its last.

    Raises:
        DatasetError: Not a finished dataset of ours with a list of clusters, or one that lacks chunks.
    """

    def __init__(self, path: StorePath) -> None:
        self.location = require_complete(path)
        require_cluster_list(self.location)
        self.layout = read_layout(path)
        # What is damaged is then an error that names the file.
        store = DatasetStore(open_store(self.location), self.location, require_sound(self.location))
        with reading(self.location):
            group = zarr.open_group(store, mode="r", zarr_format=3)
            self.attrs: dict[str, Any] = dict(group.attrs)
            self._rows = {variable.name: _array(group, variable.name) for variable in cluster_variables(self.layout)}
            self._frames = {variable.name: _array(group, variable.name) for variable in frame_variables()}
        for array in (*self._rows.values(), *self._frames.values()):
            # Known before hours have gone into writing; also where the store is one that Zarr reads as zeros.
            for key in missing_chunks(array, array.shape[0], stored_keys(array)):
                raise DatasetError(f"{self.location} lacks the chunk {key}; copy the dataset again, or make it anew.")

    def span(self, frames: tuple[int | None, int | None] = (None, None)) -> FrameSpan:
        """The frames `frames` of the archive, half-open, as `process --frames` counts them.

        Raises:
            DatasetError: Frames that the dataset does not hold.
        """
        first, n_frames = self.layout.first_frame, self.layout.n_frames
        start, stop = (
            position if wanted is None else wanted - first
            for wanted, position in zip(frames, (0, n_frames), strict=True)
        )
        if not 0 <= start <= stop <= n_frames:
            raise DatasetError(
                f"Frames {first + start}:{first + stop} were asked for, and {self.location} holds the archive's "
                f"frames {first}:{first + n_frames}; choose from these."
            )
        return FrameSpan(start, stop, self._count(start, stop))

    def blocks(self, span: FrameSpan) -> Iterator[FrameBlock]:
        """The clusters of `span`, in order; a block holds whole frames of one batch, and never no frame.

        Raises:
            DatasetError: A chunk is damaged.
        """
        first_row = self._count(0, span.start)
        rows = _Rows(self._rows, first_row, first_row + span.n_clusters, self.location)
        for start, stop in self._pieces(span):
            counts = self._read_frames("n_clusters", start, stop)
            for first, last in _cut(counts):
                taken = rows.take(int(counts[first:last].sum(dtype=np.int64)))
                yield FrameBlock(
                    first=start + first,
                    batch=start // self.layout.batch_size,
                    n_clusters=counts[first:last],
                    frame_number=self._read_frames("frame_number", start + first, start + last),
                    frame_status=self._read_frames("frame_status", start + first, start + last),
                    **taken,
                )

    def largest_frame_number(self, span: FrameSpan) -> int:
        """The largest of the archive's numbers of these frames; 0 for no frame."""
        return max((int(self._read_frames("frame_number", *piece).max()) for piece in self._pieces(span)), default=0)

    def _pieces(self, span: FrameSpan) -> Iterator[tuple[int, int]]:
        start = span.start
        while start < span.stop:
            end_of_batch = (start // self.layout.batch_size + 1) * self.layout.batch_size
            stop = min(end_of_batch, span.stop, start + FRAMES_AT_ONCE)
            yield start, stop
            start = stop

    def _count(self, start: int, stop: int) -> int:
        return sum(
            int(self._read_frames("n_clusters", first, min(first + FRAMES_AT_ONCE, stop)).sum(dtype=np.int64))
            for first in range(start, stop, FRAMES_AT_ONCE)
        )

    def _read_frames(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        with reading(f"{self.location}/{name}"):
            return np.asarray(self._frames[name][start:stop])


class _Rows:
    """Rows taken one after the other, however many at a time; each chunk is read once."""

    def __init__(self, arrays: dict[str, Array], start: int, stop: int, location: str) -> None:
        self._arrays = arrays
        self._location = location
        self._next, self._stop = start, stop
        chunk = next(iter(arrays.values())).chunks[0]
        self._step = max(1, ROWS_AT_ONCE // chunk) * chunk
        self._held = self._read(start, start)

    def take(self, n: int) -> dict[str, npt.NDArray[Any]]:
        parts, missing = [self._held], n - len(self._held["y"])
        while missing > 0:
            stop = min((self._next // self._step + 1) * self._step, self._stop)
            parts.append(self._read(self._next, stop))
            missing -= stop - self._next
            self._next = stop
        held = parts[0] if len(parts) == 1 else {k: np.concatenate([part[k] for part in parts]) for k in self._arrays}
        self._held = {name: values[n:] for name, values in held.items()}
        return {name: values[:n] for name, values in held.items()}

    def _read(self, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        read = {}
        for name, array in self._arrays.items():
            with reading(f"{self._location}/{name}"):
                read[name] = np.asarray(array[start:stop])
        return read


def _cut(counts: npt.NDArray[np.uint32]) -> Iterator[tuple[int, int]]:
    """Cut frames into runs of about `ROWS_AT_ONCE` clusters, each of one frame at least."""
    ends = np.cumsum(counts, dtype=np.int64)
    first, rows_before = 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, rows_before + ROWS_AT_ONCE, side="right")))
        yield first, last
        first, rows_before = last, int(ends[last - 1])


def _array(group: zarr.Group, name: str) -> Array:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array
