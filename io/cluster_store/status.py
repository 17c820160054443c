"""What lies at a path: nothing, something else, a run that goes on, or a finished dataset."""

from pathlib import Path
from typing import Any, Literal

import zarr

from cluster_store.arrays import StorePath, location_of
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.run_identity import open_store, root_metadata
from cluster_store.schema import ABSENT, CLUSTER_LIST, FORMAT, FORMAT_VERSION
from guarded_zarr import ObjectFolder, cut_short, store_folder
from object_stores import StoreFaultError, answer

Status = Literal["absent", "foreign", "running", "complete"]


def dataset_status(path: StorePath) -> Status:
    """Say what lies at `path`.

    Returns:
        `absent` (nothing, or an empty folder), `foreign` (anything that is not a cluster dataset, or that no longer
        says so), `running` (a dataset whose run has not ended, whether or not it still goes on) or `complete`.

    Raises:
        PermissionError: The place may not be read.
        StoreFaultError: The object store that it is on does not say.
    """
    location = location_of(path)
    try:
        attrs = _root_attributes(location)
    except (PermissionError, StoreFaultError):
        raise
    except OSError:
        attrs = None
    if attrs is None:
        return "absent" if _is_empty(location) else "foreign"
    if attrs.get("format") != FORMAT:
        return "foreign"
    return "complete" if attrs.get("status") == "complete" else "running"


def require_complete(path: StorePath) -> str:
    """The location of `path`, if a finished dataset that this version can read lies there.

    Raises:
        DatasetError: In one sentence, what was found instead and what to do.
    """
    location = location_of(path)
    match dataset_status(path):
        case "absent":
            raise DatasetError(
                f"There is no cluster dataset at {location}; check the path, or make one with `process`."
            )
        case "foreign":
            raise DatasetError(
                f"{location} is not a photonflow cluster dataset; give the path that `process` wrote its clusters to."
            )
        case "running":
            raise DatasetError(
                f"{location} is not complete: its run goes on or was broken off; wait for it, or run `process` again."
            )
        case "complete":
            require_known_version(location)
    return location


def require_cluster_list(location: str) -> None:
    """Refuse a finished dataset that tells how many clusters there were, and not which.

    Raises:
        DatasetError: It has no list of clusters.
    """
    if not read_layout(location).cluster_list:
        raise DatasetError(
            f"{location} was made without a list of clusters (--no-clusters): xr.open_zarr opens what is known of its "
            "frames, and with group='products' what was counted; run `process` without --no-clusters for the list."
        )


def require_known_version(location: str) -> None:
    """Refuse a dataset of ours that a later version wrote in another way.

    Raises:
        DatasetError: The format version is not this one.
    """
    version = (_root_attributes(location) or {}).get("format_version")
    if version != FORMAT_VERSION:
        raise DatasetError(
            f"{location} has format version {version}, and this photonflow reads version {FORMAT_VERSION}; "
            "open it with the photonflow that wrote it, or one as new."
        )


def read_attributes(path: StorePath) -> dict[str, Any]:
    """The attributes of a dataset, complete or not.

    Raises:
        DatasetError: No dataset of ours lies at `path`.
    """
    location = location_of(path)
    attrs = _root_attributes(location)
    if attrs is None or attrs.get("format") != FORMAT:
        raise DatasetError(f"{location} is not a photonflow cluster dataset; give the path of one.")
    return attrs


def read_layout(path: StorePath) -> DatasetLayout:
    """The layout a dataset was created with, complete or not.

    Raises:
        DatasetError: No dataset of ours lies at `path`, or its metadata is damaged.
    """
    location = location_of(path)
    if (status := dataset_status(location)) in ("absent", "foreign"):
        raise DatasetError(f"{location} is {status}, so it has no layout; give the path of a cluster dataset.")
    require_known_version(location)
    with reading(location):
        group = zarr.open_group(open_store(location), mode="r", zarr_format=3, use_consolidated=False)
        attrs: dict[str, Any] = dict(group.attrs)
        cluster_list = attrs.get(CLUSTER_LIST) != ABSENT
        frame_index = group["frame_index"] if cluster_list else None
        assert frame_index is None or isinstance(frame_index, zarr.Array)
        return DatasetLayout(
            n_frames=_whole(attrs["n_frames"]),
            first_frame=_whole(attrs["first_frame"]),
            batch_size=_whole(attrs["batch_size"]),
            frame_shape=_sides(attrs["frame_shape"]),
            cluster_size=_sides(attrs["cluster_size"]),
            signal_dtype=attrs["signal_dtype"],
            rows_per_chunk=0 if frame_index is None else frame_index.chunks[0],
            cluster_list=cluster_list,
        )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{cut_short(value)} in its attributes is not a whole number")
    return value


def _sides(values: Any) -> tuple[int, int]:
    rows, columns = values
    return _whole(rows), _whole(columns)


def _root_attributes(location: str) -> dict[str, Any] | None:
    """The attributes of the group at `location`; None where there is none, empty where it is damaged or no group."""
    store = open_store(location)
    try:
        root = root_metadata(store)
        if root is None:
            return None
        is_group = (root["zarr_format"], root["node_type"]) == (3, "group")
    except (ValueError, TypeError, KeyError):
        return {}
    attrs = root.get("attributes")
    return attrs if is_group and isinstance(attrs, dict) else {}


def _is_empty(location: str) -> bool:
    folder = store_folder(location)
    if isinstance(folder, ObjectFolder):
        return answer(folder.objects.is_empty())
    return folder.kind() == "absent" or (folder.kind() == "folder" and not any(Path(location).iterdir()))
