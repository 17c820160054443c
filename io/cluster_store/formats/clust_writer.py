"""Writing a `.clust` file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cluster_store.errors import DatasetError
from cluster_store.formats.clust_layout import HEADER, LARGEST_FRAME_NUMBER, LARGEST_POSITION, ClustLayout
from cluster_store.formats.stored_clusters import FrameBlock, FrameSpan, StoredClusters


def require_expressible(clusters: StoredClusters, span: FrameSpan) -> None:
    """Make sure that a `.clust` file can hold these frames.

    Raises:
        DatasetError: A frame number beyond int32, or a detector beyond uint16.
    """
    if (number := clusters.largest_frame_number(span)) > LARGEST_FRAME_NUMBER:
        raise DatasetError(
            f"{clusters.location} has the frame number {number}, and a .clust file holds none beyond "
            f"{LARGEST_FRAME_NUMBER} (int32); choose --frames with smaller numbers, or export to .parquet or .h5."
        )
    if max(clusters.layout.frame_shape) - 1 > LARGEST_POSITION:
        raise DatasetError(
            f"{clusters.location} is of a detector of {clusters.layout.frame_shape} pixels, and a .clust file holds no "
            f"position beyond {LARGEST_POSITION} (uint16); export to .parquet or .h5."
        )


def write_clust(
    clusters: StoredClusters, span: FrameSpan, layout: ClustLayout, place: Path, on_progress: Callable[[int, int], None]
) -> None:
    """Write the frames of `span`, those without clusters included, to a new file.

    Args:
        clusters: The dataset.
        span: Which frames.
        layout: The window's size, which is the dataset's, and the type of its values.
        place: The file.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: A signal that the type cannot hold, or a damaged dataset.
    """
    frames_done = clusters_done = 0
    with place.open("xb") as file:
        for block in clusters.blocks(span):
            headers = np.empty(len(block.n_clusters), HEADER)
            headers["frame_number"] = block.frame_number
            headers["n"] = block.n_clusters
            file.write(layout.pack(headers, _records(block, layout)).data)
            frames_done += len(headers)
            clusters_done += len(block)
            on_progress(frames_done, clusters_done)


def _records(block: FrameBlock, layout: ClustLayout) -> npt.NDArray[np.void]:
    records = np.zeros(len(block), layout.record)
    records["x"] = block.x
    records["y"] = block.y
    with np.errstate(invalid="ignore", over="ignore"):
        records["signal"] = block.signal
    same = records["signal"] == block.signal
    if not (same | (block.signal != block.signal)).all():
        worst = block.signal[~same].flat[0]
        raise DatasetError(f"A signal of {worst} ADU does not fit {layout.dtype}; choose another --dtype.")
    return records
