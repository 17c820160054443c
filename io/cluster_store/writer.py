"""Writing clusters from many processes at once, straight into the final arrays."""

import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

from cluster_store.arrays import StorePath, location_of, open_for_chunks
from cluster_store.chunk_files import ChunkFiles
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.run_identity import RunIdentity
from cluster_store.schema import Variable, cluster_variables, frame_variables

Array = zarr.Array[ArrayV3Metadata]

# As good as endless, while indices into it stay well inside int64.
_MANY_CHUNKS = 2**40


@dataclass(frozen=True)
class Written:
    """What a write came to, in bytes: `raw` as handed over, `stored` as it lies in the store."""

    raw: int = 0
    stored: int = 0

    def __add__(self, other: "Written") -> "Written":
        return Written(self.raw + other.raw, self.stored + other.stored)


class ClusterWriter:
    """Writes whole chunks of a dataset that `create_dataset` made.

    Any number of writers in any number of processes may write at the same time as long as no two of them are given
    different data for the same chunk. Writing a chunk again with the same data leaves the same bytes, so a retried
    task does no harm. Chunks are encoded one after the other in the calling thread's turn: memory stays at one chunk.
    A pickled writer opens the store again where it arrives.

    Args:
        path: The dataset.
        layout: The one it was created with.
        run_id: The one it was created with: every write then first makes sure that no other run has replaced the
            dataset. Empty: no check.

    Raises:
        DatasetError: On the first write, when there is no such dataset or it was laid out differently; on any, when
            the dataset is no longer that of `run_id`.
    """

    def __init__(self, path: StorePath, layout: DatasetLayout, run_id: str = "") -> None:
        self.location = location_of(path)
        self.layout = layout
        self.run_id = run_id
        self._run = RunIdentity(self.location, run_id)

    def __reduce__(self) -> tuple[type[Self], tuple[str, DatasetLayout, str]]:
        return type(self), (self.location, self.layout, self.run_id)

    def require_run(self) -> None:
        """Make sure that the dataset still is that of this writer's run.

        Raises:
            DatasetError: Another run has replaced it, or it is gone.
        """
        self._run.require()

    def write_clusters(
        self,
        first_row: int,
        frame_index: npt.NDArray[np.uint32],
        y: npt.NDArray[np.unsignedinteger],
        x: npt.NDArray[np.unsignedinteger],
        signal: npt.NDArray[Any],
    ) -> Written:
        """Write the clusters of the rows from `first_row` on.

        Args:
            first_row: Where the first cluster goes; a multiple of `layout.rows_per_chunk`.
            frame_index: (cluster), uint32, positions along the dataset's `frame`.
            y: (cluster), of `layout.position_dtype`.
            x: (cluster), of `layout.position_dtype`.
            signal: (cluster, cluster_y, cluster_x), ADU, of `layout.signal_dtype`.

        A length that is no multiple of `rows_per_chunk` is for the dataset's end only: the rest of the last chunk is
        filled with zeros.

        Raises:
            ValueError: A start that is not a chunk's first row, or arrays of other types or lengths.
            DatasetError: The dataset is not the one this writer was made for, or no longer this run's.
        """
        rows = self.layout.rows_per_chunk
        if first_row < 0 or first_row % rows:
            raise ValueError(f"The clusters start at row {first_row}; they must start at a multiple of {rows} rows.")
        given: dict[str, npt.NDArray[Any]] = {"frame_index": frame_index, "y": y, "x": x, "signal": signal}
        n_clusters = len(frame_index)
        for variable in cluster_variables(self.layout):
            shape = (n_clusters, *self.layout.cluster_size) if variable.name == "signal" else (n_clusters,)
            _check(variable, given[variable.name], shape)
        self._run.require()
        written = Written()
        for name, values in given.items():
            written += self._write_rows(self._cluster_arrays[name], first_row, values)
        return written

    def write_frames(
        self,
        first: int,
        n_clusters: npt.NDArray[np.uint32],
        frame_number: npt.NDArray[np.uint64],
        frame_status: npt.NDArray[np.uint8],
    ) -> Written:
        """Write what is known of each frame of one batch or of several successive ones.

        Args:
            first: The first frame's position along `frame`; a multiple of `layout.batch_size`.
            n_clusters: (frame), uint32.
            frame_number: (frame), uint64, the archive's numbers.
            frame_status: (frame), uint8, values of `FrameStatus`.

        Raises:
            ValueError: A start or an end inside a batch, or arrays of other types or lengths.
            DatasetError: The dataset is not the one this writer was made for, or no longer this run's.
        """
        size, end = self.layout.batch_size, first + len(n_clusters)
        whole = end == self.layout.n_frames or (end < self.layout.n_frames and end % size == 0)
        if first < 0 or first % size or not whole:
            raise ValueError(
                f"Frames {first} to {end} are not whole batches of {size} frames out of {self.layout.n_frames}."
            )
        given: dict[str, npt.NDArray[Any]] = {
            "n_clusters": n_clusters,
            "frame_number": frame_number,
            "frame_status": frame_status,
        }
        for variable in frame_variables():
            _check(variable, given[variable.name], n_clusters.shape)
        self._run.require()
        written = Written()
        for name, values in given.items():
            written += self._write_rows(self._frame_arrays[name], first, values)
        return written

    def _write_rows(self, array: Array, first_row: int, values: npt.NDArray[Any]) -> Written:
        """Write whole chunks, the last one filled up with zeros."""
        rows, n_rows = array.chunks[0], len(values)
        files = ChunkFiles.of(array)
        stored_bytes = 0
        for start in range(0, n_rows, rows):
            chunk = np.ascontiguousarray(values[start : start + rows])
            if len(chunk) < rows:
                padded = np.zeros((rows, *values.shape[1:]), values.dtype)
                padded[: len(chunk)] = chunk
                chunk = padded
            number = (first_row + start) // rows
            if files is not None:
                stored_bytes += files.write(number, chunk)
                continue
            # Along `frame` the last chunk ends beyond the array.
            end = min(first_row + start + rows, array.shape[0])
            array[first_row + start : end] = chunk[: end - first_row - start]
            stored_bytes += _stored_bytes(array, range(number, number + 1))
        return Written(values.nbytes, stored_bytes)

    @cached_property
    def _cluster_arrays(self) -> dict[str, Array]:
        rows = self.layout.rows_per_chunk
        return {
            variable.name: self._open(variable, rows, rows * _MANY_CHUNKS)
            for variable in cluster_variables(self.layout)
        }

    @cached_property
    def _frame_arrays(self) -> dict[str, Array]:
        per_chunk = self.layout.frames_per_chunk
        return {variable.name: self._open(variable, per_chunk, None) for variable in frame_variables()}

    def _open(self, variable: Variable, chunk_rows: int, n_rows: int | None) -> Array:
        with reading(f"{self.location}/{variable.name}"):
            try:
                array = open_for_chunks(self.location, variable.name, n_rows)
            except FileNotFoundError as error:
                raise DatasetError(
                    f"{self.location} holds no array {variable.name!r} to write to; create the dataset first."
                ) from error
        if (array.chunks[0], array.dtype) != (chunk_rows, np.dtype(variable.dtype)):
            raise DatasetError(
                f"{self.location} has chunks of {array.chunks[0]} rows of {array.dtype} in {variable.name!r}, not "
                f"{chunk_rows} of {variable.dtype}; it belongs to another run, so choose another place."
            )
        return array


def _check(variable: Variable, values: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if values.shape != shape or values.dtype != np.dtype(variable.dtype):
        raise ValueError(
            f"{variable.name} is {values.dtype} of shape {values.shape}; it must be {variable.dtype} of shape {shape}."
        )


def _stored_bytes(array: Array, chunks: range) -> int:
    """Bytes in the store of the chunks with these indices along the first dimension."""
    store, prefix = array.store_path.store, array.store_path.path
    rest = (0,) * (array.ndim - 1)
    keys = [f"{prefix}/{array.metadata.encode_chunk_key((chunk, *rest))}" for chunk in chunks]

    async def total() -> int:
        return sum(await asyncio.gather(*(store.getsize(key) for key in keys)))

    return sync(total())
