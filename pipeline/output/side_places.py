"""Where the small files beside a dataset lie: where the dataset does."""

from __future__ import annotations

import os
from pathlib import Path

from object_stores import Objects, is_url
from pipeline.output.side_folder import LocalSideFolder, SideFolder
from pipeline.output.side_objects import ObjectSideFolder


def side_folder(place: str | os.PathLike[str]) -> SideFolder:
    """The folder at a path or an address, whether or not it is there."""
    text = os.fspath(place)
    return ObjectSideFolder(Objects.at(text)) if is_url(text) else LocalSideFolder(Path(text))
