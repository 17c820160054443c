"""From a `.clust` file to a dataset."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError
from cluster_store.formats.clust_layout import ClustLayout
from cluster_store.formats.clust_reader import ClustBlock, ClustFile
from cluster_store.layout import DatasetLayout
from cluster_store.lifecycle import create_dataset, finish_dataset
from cluster_store.schema import FrameStatus
from cluster_store.writer import ClusterWriter

FRAMES_A_BATCH = 2000

Columns = dict[str, npt.NDArray[Any]]


def import_clust(
    source: ClustFile, n_frames: int, place: Path, attrs: Mapping[str, Any], on_progress: Callable[[int, int], None]
) -> None:
    """Write the clusters of a `.clust` file as a new dataset at `place`.

    Every frame of the file becomes a frame of the dataset, in the file's order and with its number. The clusters of a
    frame are put in the order (y, x), if they are not. int16 becomes int32; float64 is rounded to float32.

    Args:
        source: The file.
        n_frames: How many frames it has.
        place: Where nothing lies yet.
        attrs: What the dataset says of its origin.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: The file is damaged or not of the layout that was said.
    """
    layout = dataset_layout(source.layout, source.frame_shape, n_frames)
    create_dataset(place, layout, attrs)
    writer = _InWholeChunks(ClusterWriter(place, layout), layout)
    frames_done = clusters_done = 0
    for block in source.blocks():
        frame_index = np.repeat(np.arange(frames_done, frames_done + len(block.n), dtype=np.uint32), block.n)
        writer.add_clusters(_sorted(frame_index, block, layout))
        writer.add_frames({"n_clusters": block.n, "frame_number": block.frame_number.astype(np.uint64)})
        frames_done += len(block.n)
        clusters_done += len(frame_index)
        on_progress(frames_done, clusters_done)
    writer.finish()
    finish_dataset(place, layout, clusters_done, {})


def dataset_layout(layout: ClustLayout, frame_shape: tuple[int, int], n_frames: int) -> DatasetLayout:
    """The layout of a dataset with what a `.clust` file of `layout` holds.

    Raises:
        ValueError: No dataset has such windows, or such a detector.
    """
    return DatasetLayout(
        n_frames=n_frames,
        first_frame=0,
        batch_size=FRAMES_A_BATCH,
        frame_shape=frame_shape,
        cluster_size=layout.cluster_size,
        signal_dtype="float32" if layout.dtype.startswith("float") else "int32",
    )


def _sorted(frame_index: npt.NDArray[np.uint32], block: ClustBlock, layout: DatasetLayout) -> Columns:
    records = block.records
    # Frames counted from the block's first, so that all fits into one number, however many frames the file has.
    frame = frame_index.astype(np.int64) - int(frame_index[0]) if len(frame_index) else frame_index.astype(np.int64)
    place = (frame << 32) | (records["y"].astype(np.int64) << 16) | records["x"]
    if (np.diff(place) < 0).any():
        order = np.argsort(place, kind="stable")  # no cluster leaves its frame
        records = records[order]
    return {
        "frame_index": frame_index,
        "y": records["y"].astype(layout.position_dtype),
        "x": records["x"].astype(layout.position_dtype),
        "signal": _converted(records["signal"], layout),
    }


def _converted(signal: npt.NDArray[Any], layout: DatasetLayout) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        converted = signal.astype(layout.signal_dtype)
    lost = np.isinf(converted) & np.isfinite(signal)
    if lost.any():
        raise DatasetError(
            f"A signal of {signal[lost].flat[0]} ADU does not fit the {layout.signal_dtype} of a dataset; "
            "check --cluster-size and --dtype."
        )
    return converted


class _InWholeChunks:
    """Hands rows and frames to a writer that takes whole chunks only."""

    def __init__(self, writer: ClusterWriter, layout: DatasetLayout) -> None:
        self._writer = writer
        self._layout = layout
        self._rows: list[Columns] = []
        self._frames: list[Columns] = []
        self._rows_written = self._frames_written = 0

    def add_clusters(self, rows: Columns) -> None:
        self._rows.append(rows)
        whole = sum(len(part["y"]) for part in self._rows) // self._layout.rows_per_chunk
        self._write_rows(whole * self._layout.rows_per_chunk)

    def add_frames(self, frames: Columns) -> None:
        self._frames.append(frames)
        whole = sum(len(part["n_clusters"]) for part in self._frames) // self._layout.batch_size
        self._write_frames(whole * self._layout.batch_size)

    def finish(self) -> None:
        self._write_rows(sum(len(part["y"]) for part in self._rows))
        self._write_frames(sum(len(part["n_clusters"]) for part in self._frames))

    def _write_rows(self, n: int) -> None:
        if n:
            head, self._rows = _split(self._rows, n)
            self._writer.write_clusters(self._rows_written, **head)
            self._rows_written += n

    def _write_frames(self, n: int) -> None:
        if n:
            head, self._frames = _split(self._frames, n)
            self._writer.write_frames(self._frames_written, **head, frame_status=np.full(n, FrameStatus.OK, np.uint8))
            self._frames_written += n


def _split(parts: list[Columns], n: int) -> tuple[Columns, list[Columns]]:
    """The first `n` rows, and the rest."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return (
        {name: values[:n] for name, values in joined.items()},
        [{name: values[n:].copy() for name, values in joined.items()}],
    )
