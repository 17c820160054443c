"""What may be replaced at the place where something of ours is to be written."""

import os
from collections.abc import Callable
from pathlib import Path

from frame_archive.errors import ArchiveError


def require_own_or_free(location: Path, overwrite: bool, is_ours: Callable[[Path], bool], what: str) -> None:
    """Make sure that `location` is free, or holds what may be replaced.

    Args:
        location: Where something is to be written.
        overwrite: What `is_ours` knows there may be replaced.
        is_ours: Whether photonflow made what is there.
        what: What is written, in words with their article.

    Raises:
        ArchiveError: something is there that is not to be replaced.
    """
    if not os.path.lexists(location):
        return
    if not overwrite:
        raise ArchiveError(f"{location} exists already: choose another name, or replace it with --overwrite")
    if location.is_symlink() or not is_ours(location):
        raise ArchiveError(
            f"{location} is not {what} that photonflow made, so --overwrite leaves it alone: choose another name"
        )
