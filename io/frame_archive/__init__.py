"""Frame archives: the detector's frames, darks and mask in one Zarr store."""

from .archive import DEFAULT_BLOCK_NBYTES, ArchiveAddress, FrameArchive
from .creation import ArchiveWriter, create_archive
from .errors import ArchiveError
from .stored_array import MissingChunks

__all__ = [
    "DEFAULT_BLOCK_NBYTES",
    "ArchiveAddress",
    "ArchiveError",
    "ArchiveWriter",
    "FrameArchive",
    "MissingChunks",
    "create_archive",
]
