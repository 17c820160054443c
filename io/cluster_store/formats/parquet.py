"""Clusters as Parquet: a folder with one file a batch, for pandas, polars, Arrow and awkward."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from cluster_store.formats.libraries import required
from cluster_store.formats.stored_clusters import FrameBlock, FrameSpan, StoredClusters
from cluster_store.schema import cluster_variables, frame_variables

if TYPE_CHECKING:
    import pyarrow as pa

FILE_NAME = "clusters.parquet"
METADATA_KEY = b"photonflow"
_FOLDER = re.compile(r"batch=\d+")
_LEAST_DIGITS = 5


def write_parquet(
    clusters: StoredClusters, span: FrameSpan, place: Path, on_progress: Callable[[int, int], None]
) -> None:
    """Write the clusters of `span` to the new folder `place`, each batch to `batch=K/clusters.parquet`.

    Columns: `frame_index` (uint32), `frame_number` (uint64), `y`, `x`, and `signal`, a list of fixed size with the
    window row by row. Names, units and the window's shape are metadata of the fields; the dataset's attributes are the
    schema's metadata `photonflow`, as JSON. Batches in which nothing was found have a file of no rows.

    Args:
        clusters: The dataset.
        span: Which frames.
        place: The folder.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: pyarrow is not installed, or the dataset is damaged.
    """
    required("pyarrow", "Parquet")
    schema = _schema(clusters, span)
    # Readers go through the folders in the order of their names.
    digits = max(_LEAST_DIGITS, len(str(max(clusters.layout.n_batches - 1, 0))))
    place.mkdir()
    frames_done = clusters_done = 0
    with _BatchFiles(place, digits, schema) as files:
        for block in clusters.blocks(span):
            files.write(block)
            frames_done += len(block.n_clusters)
            clusters_done += len(block)
            on_progress(frames_done, clusters_done)


def is_our_parquet(place: Path) -> bool:
    """Whether a folder holds nothing but what `write_parquet` writes."""
    folders = list(place.iterdir()) if place.is_dir() and not place.is_symlink() else []
    if not folders or not all(_FOLDER.fullmatch(folder.name) and folder.is_dir() for folder in folders):
        return False
    if any([entry.name for entry in folder.iterdir()] != [FILE_NAME] for folder in folders):
        return False
    required("pyarrow", "Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with (folders[0] / FILE_NAME).open("rb") as file:
            return METADATA_KEY in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        return False


class _BatchFiles:
    """The file of the batch at work; a context manager that closes the last one."""

    def __init__(self, folder: Path, digits: int, schema: "pa.Schema") -> None:
        self._folder, self._digits, self._schema = folder, digits, schema
        self._batch = -1
        self._disk: BinaryIO | None = None
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._batch < 0 and error[0] is None:  # no frame at all: the columns are still to be known
            self._begin(0)
        self._end()

    def write(self, block: FrameBlock) -> None:
        if block.batch != self._batch:
            self._end()
            self._begin(block.batch)
        if len(block):
            self._file.write_table(_table(block, self._schema))

    def _begin(self, batch: int) -> None:
        import pyarrow.parquet as pq

        self._batch = batch
        folder = self._folder / f"batch={batch:0{self._digits}}"
        folder.mkdir()
        # Opened here, for Arrow takes no name that is not Unicode.
        self._disk = (folder / FILE_NAME).open("xb")
        self._file = pq.ParquetWriter(self._disk, self._schema, compression="zstd")
        # awkward takes no file without a group of rows, be it an empty one.
        self._file.write_table(self._schema.empty_table())

    def _end(self) -> None:
        file, disk = self._file, self._disk
        self._file = self._disk = None  # closed once, also where that fails
        with disk or nullcontext():
            if file is not None:
                file.close()


def _schema(clusters: StoredClusters, span: FrameSpan) -> "pa.Schema":
    import pyarrow as pa

    layout = clusters.layout
    types = {
        "frame_index": pa.uint32(),
        "frame_number": pa.uint64(),
        "y": pa.from_numpy_dtype(layout.position_dtype),
        "x": pa.from_numpy_dtype(layout.position_dtype),
        "signal": pa.list_(
            pa.field("element", pa.from_numpy_dtype(layout.signal_dtype), nullable=False),
            layout.cluster_size[0] * layout.cluster_size[1],
        ),
    }
    said = {variable.name: dict(variable.attrs) for variable in (*cluster_variables(layout), *frame_variables())}
    said["signal"] |= {"shape": json.dumps(layout.cluster_size), "dims": '["cluster_y", "cluster_x"]'}
    attrs = clusters.attrs | {"exported_frames": [layout.first_frame + span.start, layout.first_frame + span.stop]}
    return pa.schema(
        [pa.field(name, kind, nullable=False, metadata=said[name]) for name, kind in types.items()],
        metadata={METADATA_KEY: json.dumps(attrs)},
    )


def _table(block: FrameBlock, schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    signal = pa.array(np.ascontiguousarray(block.signal).reshape(-1))
    columns = [
        pa.array(block.frame_index),
        pa.array(np.repeat(block.frame_number, block.n_clusters)),
        pa.array(block.y),
        pa.array(block.x),
        pa.FixedSizeListArray.from_arrays(signal, type=schema.field("signal").type),
    ]
    return pa.Table.from_arrays(columns, schema=schema)
