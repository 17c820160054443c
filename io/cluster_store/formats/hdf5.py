"""Clusters as an HDF5 file that follows NeXus: what its base class NXevent_data holds, and the windows beside it."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cluster_store.formats.hdf5_file import ForgivingFile
from cluster_store.formats.libraries import required
from cluster_store.formats.stored_clusters import FrameBlock, FrameSpan, StoredClusters
from cluster_store.schema import cluster_variables, frame_variables, window_offsets

if TYPE_CHECKING:
    import h5py

CREATOR = "photonflow"
ENTRY, EVENTS, PARAMETERS = "entry", "clusters", "parameters"
_CHUNK_BYTES = 1 << 20


def write_hdf5(clusters: StoredClusters, span: FrameSpan, place: Path, on_progress: Callable[[int, int], None]) -> None:
    """Write the clusters of `span` to the new file `place`.

    `/entry/clusters` is an NXevent_data. As there: `event_id` (the pixel, y·columns + x, of each cluster) and
    `event_index` (of each frame, its first cluster). Beside them, along the clusters: `frame_index`, counted from the
    file's first frame, `y`, `x`, `signal` (cluster, row, column); along the frames: `n_clusters`, `frame_number`,
    `frame_status`. The fields of NXevent_data that hold times are left out, for frames have numbers here and no times.
    `/entry/parameters` has the dataset's attributes.

    Args:
        clusters: The dataset.
        span: Which frames.
        place: The file.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: h5py is not installed, or the dataset is damaged.
        OSError: The disk takes no more.
    """
    required("h5py", "HDF5")
    import h5py

    with closing(ForgivingFile(place)) as disk:
        with h5py.File(disk, "w", libver=("v108", "latest")) as file:
            _write(file, disk, clusters, span, on_progress)
        disk.raise_failure()


def _write(
    file: "h5py.File",
    disk: ForgivingFile,
    clusters: StoredClusters,
    span: FrameSpan,
    on_progress: Callable[[int, int], None],
) -> None:
    # Kept open: HDF5 compresses a chunk that is not full each time that its array is closed.
    arrays = dict(_structure(file, clusters, span).items())
    frames_done = clusters_done = 0
    for block in clusters.blocks(span):
        frames = slice(frames_done, frames_done + len(block.n_clusters))
        rows = slice(clusters_done, clusters_done + len(block))
        for name, values in _frame_values(block, clusters_done).items():
            arrays[name][frames] = values
        for name, values in _cluster_values(block, span.start, clusters.layout.frame_shape[1]).items():
            if len(values):
                arrays[name][rows] = values
        disk.raise_failure()
        frames_done, clusters_done = frames.stop, rows.stop
        on_progress(frames_done, clusters_done)


def is_our_hdf5(place: Path) -> bool:
    """Whether a file is one that `write_hdf5` wrote."""
    required("h5py", "HDF5")
    import h5py

    if not place.is_file() or not h5py.is_hdf5(place):
        return False
    try:
        with h5py.File(place, "r") as file:
            return file.attrs.get("creator") == CREATOR and f"{ENTRY}/{EVENTS}" in file
    except (OSError, KeyError, RuntimeError):  # damaged, and so nobody's
        return False


def _structure(file: "h5py.File", clusters: StoredClusters, span: FrameSpan) -> "h5py.Group":
    layout = clusters.layout
    file.attrs.update(
        {"NX_class": "NXroot", "creator": CREATOR, "creator_version": version("photonflow"), "default": ENTRY}
    )
    entry = _group(file, ENTRY, "NXentry", default=EVENTS)
    entry["title"] = str(clusters.attrs["title"])
    _group(entry, PARAMETERS, "NXcollection", **{name: _attribute(value) for name, value in clusters.attrs.items()})
    events = _group(entry, EVENTS, "NXevent_data", first_frame=layout.first_frame + span.start)
    events["total_counts"] = np.uint64(span.n_clusters)

    def create(name: str, dtype: str, shape: tuple[int, ...], attrs: Mapping[str, Any]) -> None:
        row_bytes = np.dtype(dtype).itemsize * int(np.prod(shape[1:]))
        dataset = events.create_dataset(
            name,
            shape=shape,
            maxshape=(None, *shape[1:]),
            dtype=dtype,
            chunks=(_CHUNK_BYTES // row_bytes, *shape[1:]),
            shuffle=True,
            compression="gzip",
            compression_opts=1,
        )
        dataset.attrs.update(
            {key: np.asarray(value) if key == "flag_values" else value for key, value in attrs.items()}
        )

    pixel = {"long_name": "number of the central pixel: y * columns + x", "columns": layout.frame_shape[1]}
    create("event_id", _pixel_dtype(layout.frame_shape).name, (span.n_clusters,), pixel)
    for variable in cluster_variables(layout):
        window = layout.cluster_size if variable.name == "signal" else ()
        create(variable.name, variable.dtype, (span.n_clusters, *window), variable.attrs)
    create("event_index", "uint64", (span.n_frames,), {"long_name": "first cluster of the frame"})
    for variable in frame_variables():
        create(variable.name, variable.dtype, (span.n_frames,), variable.attrs)
    for variable, offsets in window_offsets(layout):
        events[variable.name] = np.asarray(offsets, variable.dtype)
        events[variable.name].attrs.update(variable.attrs)
    return events


def _group(parent: "h5py.Group", name: str, kind: str, **attrs: Any) -> "h5py.Group":
    group = parent.create_group(name)
    group.attrs.update({"NX_class": kind} | attrs)
    return group


def _attribute(value: Any) -> Any:
    """HDF5 attributes hold numbers, strings and lists of numbers; whatever else is JSON."""
    if isinstance(value, str) and "\0" not in value and _is_unicode(value):
        return value
    if _is_number(value) or (isinstance(value, list) and value and all(_is_number(entry) for entry in value)):
        return value
    return json.dumps(value)


def _is_unicode(text: str) -> bool:
    """Whether it can be encoded: half a character of UTF-16, as JSON may hold one, can't."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _is_number(value: Any) -> bool:
    """Whether it fits one of HDF5's."""
    return isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def _frame_values(block: FrameBlock, rows_before: int) -> dict[str, npt.NDArray[Any]]:
    ends = np.cumsum(block.n_clusters, dtype=np.uint64) + np.uint64(rows_before)
    return {
        "event_index": ends - block.n_clusters,
        "n_clusters": block.n_clusters,
        "frame_number": block.frame_number,
        "frame_status": block.frame_status,
    }


def _cluster_values(block: FrameBlock, first_frame: int, columns: int) -> dict[str, npt.NDArray[Any]]:
    pixel = block.y.astype(np.uint64) * np.uint64(columns) + block.x
    return {
        "event_id": pixel,
        "frame_index": block.frame_index - np.uint32(first_frame),  # along the frames of this file
        "y": block.y,
        "x": block.x,
        "signal": block.signal,
    }


def _pixel_dtype(frame_shape: tuple[int, int]) -> np.dtype[Any]:
    return np.dtype(np.uint32 if frame_shape[0] * frame_shape[1] <= 2**32 else np.uint64)
