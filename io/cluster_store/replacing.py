"""What may be removed to make room for a new dataset: a dataset of ours in which nothing else lies."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster_store.arrays import StorePath, location_of
from cluster_store.damage import reading
from cluster_store.errors import DatasetError
from cluster_store.run_identity import open_store, root_metadata
from cluster_store.schema import ARRAY_NAMES, GROUPS
from cluster_store.status import dataset_status
from guarded_zarr import LocalFolder, ObjectFolder, store_folder
from object_stores import listed


def require_replaceable(path: StorePath) -> None:
    """Make sure that what lies at `path` may be removed for a new dataset; nothing is changed.

    Nothing at all or an empty folder will do, and so will a dataset of ours, complete or not, that holds only what
    this package writes: the metadata, the chunks of its arrays, the groups beside them, and what a killed writer left
    half-written. Takes one listing of the store.

    Raises:
        DatasetError: Something else lies there, a symbolic link does, or a file of someone else's lies inside.
        OSError: The place may not be read.
    """
    location = location_of(path)
    status = dataset_status(location)
    folder = store_folder(location)
    is_link = isinstance(folder, LocalFolder) and Path(location).is_symlink()
    if status == "absent" and not (is_link and not Path(location).exists()):
        return
    if is_link:
        raise DatasetError(
            f"{location} is a symbolic link, and none is ever replaced; "
            f"give {os.path.realpath(location)} itself as output, or another one."
        )
    if status == "foreign":
        raise DatasetError(f"{location} exists and is not a photonflow cluster dataset; choose another output.")
    store = open_store(location)
    with reading(location):
        ours = _ours(root_metadata(store))
    leaves = _listed(folder) if isinstance(folder, ObjectFolder) else _leaves(location)
    for key, may_be_ours in leaves:
        if not (may_be_ours and ours.fullmatch(key)):
            raise DatasetError(
                f"{location} is not replaced, for {key} in it is not a part of the dataset; "
                "move it elsewhere, or choose another output."
            )


def _ours(root: Any) -> re.Pattern[str]:
    """What the keys of a dataset look like; those of empty folders end with a slash."""
    group = "|".join(GROUPS)
    tables = f"(?:{group})/[^/]+"
    consolidated = root.get("consolidated_metadata")
    if isinstance(consolidated, dict):  # a finished run says which tables it has; any other is someone else's
        known = consolidated.get("metadata") or ()
        tables = "|".join(re.escape(key) for key in known if key.partition("/")[0] in GROUPS and "/" in key)
    array = "|".join(filter(None, (*ARRAY_NAMES, tables)))
    node = f"(?:{array}|{group})"
    chunk = rf"(?:{array})/c(?:/\d+)*"
    half_written = r"[^/]*\.partial"
    return re.compile(
        rf"(?:{node}/)?(?:zarr\.json|{half_written})|{chunk}(?:/{half_written})?|{node}/|{chunk}/", re.DOTALL
    )


def _leaves(folder: str, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Everything below `folder` that holds nothing more, in order of its key, and whether we may have written it."""
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    if prefix and not entries:
        yield prefix, True
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _leaves(entry.path, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, not entry.is_symlink()


def _listed(folder: ObjectFolder) -> Iterator[tuple[str, bool]]:
    return ((key, True) for key, _ in sorted(listed(folder.objects)))
