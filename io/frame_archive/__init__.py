"""Frame archives: the detector's frames, darks and mask in one Zarr store."""

from frame_archive.addresses import local_path, location_of
from frame_archive.archive import DEFAULT_BLOCK_NBYTES, ArchiveAddress, FrameArchive
from frame_archive.creation import create_archive
from frame_archive.errors import ArchiveError
from frame_archive.opening import FRAME_DTYPES
from frame_archive.planes import find_column, find_plane
from frame_archive.read_use import ReadUse
from frame_archive.stored_array import MissingChunks
from frame_archive.writer import ArchiveWriter, Compression
from frame_archive.zarr_exit import end_zarr_thread_at_exit

__all__ = [
    "DEFAULT_BLOCK_NBYTES",
    "FRAME_DTYPES",
    "ArchiveAddress",
    "ArchiveError",
    "ArchiveWriter",
    "Compression",
    "FrameArchive",
    "MissingChunks",
    "ReadUse",
    "create_archive",
    "find_column",
    "find_plane",
    "local_path",
    "location_of",
]

end_zarr_thread_at_exit()
