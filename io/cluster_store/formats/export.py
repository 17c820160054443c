"""Which format a name asks for, and writing it from a dataset or, for `.clust`, making a dataset of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cluster_store.arrays import StorePath
from cluster_store.errors import DatasetError
from cluster_store.formats.clust_import import dataset_layout, import_clust
from cluster_store.formats.clust_layout import LARGEST_POSITION, ClustLayout
from cluster_store.formats.clust_reader import ClustFile
from cluster_store.formats.clust_structure import is_clust
from cluster_store.formats.clust_writer import require_expressible, write_clust
from cluster_store.formats.hdf5 import is_our_hdf5, write_hdf5
from cluster_store.formats.libraries import required
from cluster_store.formats.parquet import is_our_parquet, write_parquet
from cluster_store.formats.places import local_place, written_aside
from cluster_store.formats.stored_clusters import StoredClusters
from cluster_store.replacing import require_replaceable

FORMATS = {
    ".parquet": "folder of Parquet files",
    ".clust": ".clust file",
    ".h5": "HDF5 file",
    ".hdf5": "HDF5 file",
    ".nxs": "HDF5 file",
}
"""What the end of a name means."""

_RECOGNISED = {
    ".parquet": is_our_parquet, ".clust": is_clust, ".h5": is_our_hdf5, ".hdf5": is_our_hdf5, ".nxs": is_our_hdf5,
}  # fmt: skip
_LIBRARIES = {".parquet": "pyarrow", ".h5": "h5py", ".hdf5": "h5py", ".nxs": "h5py"}

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """What was written where.

    Attributes:
        place: The file or folder.
        n_frames: How many frames.
        n_clusters: How many clusters.
        layout: The window's size, and the type of its values (of a `.clust` file those in the file).
        frame_shape: Rows and columns of the detector.
    """

    place: Path
    n_frames: int
    n_clusters: int
    layout: ClustLayout
    frame_shape: tuple[int, int]


def export_clusters(
    dataset: StorePath,
    to: StorePath,
    *,
    frames: tuple[int | None, int | None] = (None, None),
    dtype: str | None = None,
    overwrite: bool = False,
    on_start: Callable[[int], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write the clusters of a finished dataset in another format; in bounded memory, and never half.

    Args:
        dataset: The dataset.
        to: Where; `.parquet`, `.clust`, `.h5` (also `.hdf5`, `.nxs`) says in which format.
        frames: The archive's frames `(start, stop)`, half-open; None at either side is the dataset's end.
        dtype: The type of the signal in a `.clust` file; None is the dataset's.
        overwrite: Replace what an earlier export wrote there.
        on_start: Told how many frames there are.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: One sentence says what is wrong and what to do.
    """
    place = local_place(to)
    suffix = place.suffix.lower()
    if suffix not in FORMATS:
        raise DatasetError(f"{to} does not say in which format: end it with one of {', '.join(FORMATS)}.")
    if dtype is not None and suffix != ".clust":
        raise DatasetError(f"{to} keeps the dataset's type of the signal; only a .clust file may have another.")
    if suffix in _LIBRARIES:
        required(_LIBRARIES[suffix], FORMATS[suffix])
    clusters = StoredClusters(dataset)
    span = clusters.span(frames)
    layout = ClustLayout(clusters.layout.cluster_size, dtype or clusters.layout.signal_dtype)
    if suffix == ".clust":
        require_expressible(clusters, span)
        if span.n_frames == 0:
            raise DatasetError(f"{to} would be an empty file, for no frame was asked for; choose other --frames.")
    with written_aside(place, overwrite, _RECOGNISED[suffix], FORMATS[suffix], within=clusters.location) as aside:
        if on_start is not None:
            on_start(span.n_frames)
        report = on_progress or (lambda frames, clusters: None)
        if suffix == ".clust":
            write_clust(clusters, span, layout, aside, report)
        elif suffix == ".parquet":
            write_parquet(clusters, span, aside, report)
        else:
            write_hdf5(clusters, span, aside, report)
    return Exported(place, span.n_frames, span.n_clusters, layout, clusters.layout.frame_shape)


def is_our_export(place: Path, suffix: str) -> bool:
    """Whether what lies at `place` is clusters in the format of `suffix`, as `export_clusters` writes them."""
    library = _LIBRARIES.get(suffix)
    return (library is None or find_spec(library) is not None) and _RECOGNISED[suffix](place)


def import_clusters(
    source: StorePath,
    to: StorePath,
    *,
    layout: ClustLayout,
    frame_shape: tuple[int, int],
    attrs: Mapping[str, Any],
    overwrite: bool = False,
    on_start: Callable[[int], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Make a dataset of a `.clust` file; in bounded memory, and never half. See :func:`import_clust`.

    Args:
        source: The file.
        to: Where the dataset goes.
        layout: The window's size and the type of its values, which the file does not say.
        frame_shape: Rows and columns of the detector.
        attrs: What the dataset says of its origin.
        overwrite: Replace an earlier dataset.
        on_start: Told how many frames there are.
        on_progress: Called with how many frames, and how many clusters, have been written.

    Raises:
        DatasetError: One sentence says what is wrong, at which byte of the file, and what to do.
    """
    place = local_place(to)
    dataset_layout(layout, frame_shape, 0)  # refuses what no dataset can be
    if max(frame_shape) - 1 > LARGEST_POSITION:
        rows, columns = frame_shape
        raise DatasetError(
            f"A detector of {rows}x{columns} pixels was said, and a .clust file holds no position beyond "
            f"{LARGEST_POSITION}; give its own --frame-shape."
        )
    file = ClustFile(Path(source).absolute(), layout, frame_shape)
    n_frames = sum(1 for _ in file.headers())
    if n_frames == 0:
        raise DatasetError(f"{source} is empty; give a .clust file with frames.")
    done = [0, 0]

    def report(frames: int, clusters: int) -> None:
        done[:] = frames, clusters
        if on_progress is not None:
            on_progress(frames, clusters)

    with written_aside(place, overwrite, _is_our_dataset, "cluster dataset") as aside:
        if on_start is not None:
            on_start(n_frames)
        import_clust(file, n_frames, aside, attrs, report)
    return Exported(place, done[0], done[1], layout, frame_shape)


def _is_our_dataset(place: Path) -> bool:
    require_replaceable(place)
    return True
