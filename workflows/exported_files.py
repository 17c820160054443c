"""Files that an export has written: how they are opened, and what to say where a command wants something else."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from object_stores import is_url
from workflows.facts import opening_line

if TYPE_CHECKING:
    from cluster_store.formats import Exported

_SUFFIXES = (".parquet", ".clust", ".h5", ".hdf5", ".nxs")
READ_BACK = ".clust"
"""The one format of which a dataset is made again."""
_NOT_READ_BACK = f"photonflow itself reads only {READ_BACK} back"


def require_no_export(path: str) -> None:
    """Refuse clusters in another format, which are neither frames nor a dataset.

    Raises:
        ValueError: There is such a file or folder at `path`; the sentence says what can be done with it.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES or is_url(path) or not Path(path).exists():
        return
    # Late, for few commands are given such a file.
    from cluster_store.formats.export import FORMATS, is_our_export

    if suffix == READ_BACK:
        raise ValueError(
            f"{path} is a .clust file of clusters: make a dataset of it, with photonflow export {shlex.quote(path)} "
            "--to NAME.zarr --cluster-size ROWSxCOLUMNS --frame-shape ROWSxCOLUMNS"
        )
    if is_our_export(Path(path), suffix):
        raise ValueError(
            f"{path} holds clusters that export has written ({FORMATS[suffix]}): give the dataset that they came from, "
            f"for {_NOT_READ_BACK} (docs/export.md)"
        )


def how_to_open(exported: Exported, to: str) -> str:
    """A line that says how what was written at `to` is opened; of `.clust` with all that the file does not say."""
    suffix = exported.place.suffix.lower()
    size = "x".join(map(str, exported.layout.cluster_size))
    shape = "x".join(map(str, exported.frame_shape))
    match suffix:
        case ".zarr":
            return opening_line(to, clusters_listed=True)
        case ".parquet":
            return f"import pandas; clusters = pandas.read_parquet({to!r})  ({_NOT_READ_BACK})"
        case ".clust":
            return (
                f"photonflow export {shlex.quote(to)} --to NAME.zarr --cluster-size {size} --dtype "
                f"{exported.layout.dtype} --frame-shape {shape}"
            )
        case _:
            return f"import h5py; clusters = h5py.File({to!r})['entry/clusters']  ({_NOT_READ_BACK})"
