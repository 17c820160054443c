"""A frame archive: the frames of one detector run, its darks and its mask, in one Zarr store."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frame_archive.addresses import location_of
from frame_archive.ahead import ChunksAhead
from frame_archive.detector_words import gain_bits_of
from frame_archive.errors import ArchiveError
from frame_archive.opening import ArchiveArrays, find_arrays
from frame_archive.read_use import ReadUse
from frame_archive.stored_array import MissingChunks, StoredArray
from guarded_zarr import store_folder
from object_stores import is_url

DEFAULT_BLOCK_NBYTES = 32 << 20


@dataclass(frozen=True)
class ArchiveAddress:
    """Where an archive is and how to read it: small, and the same on every worker.

    Attributes:
        path: the absolute path of the Zarr store, or its address on an object store.
        frames_path: the array of frames in it, if it is not `frames`.
        missing_chunks: "error", or "fill" to read a missing chunk as the array's fill value.
    """

    path: str
    frames_path: str | None = None
    missing_chunks: MissingChunks = "error"

    def open(self) -> "FrameArchive":
        """Open the archive; see `FrameArchive.open`."""
        return FrameArchive.open(self.path, self.frames_path, self.missing_chunks)


class FrameArchive:
    """A frame archive, open for reading. Make one with `FrameArchive.open`.

    Attributes:
        address: where it is; pickles, and opens the same archive elsewhere.
        attrs: the attributes of the group that holds the frames.
    """

    def __init__(self, address: ArchiveAddress, arrays: ArchiveArrays) -> None:
        self.address = address
        self.attrs: dict[str, Any] = arrays.attrs
        self._arrays = arrays
        self._frames = arrays.frames

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], frames_path: str | None = None, missing_chunks: MissingChunks = "error"
    ) -> "FrameArchive":
        """Open the archive at `path`: a Zarr group (v2 or v3, xarray's too) or a bare array (frame, y, x).

        The values are read as stored: `scale_factor`, `add_offset` and `_FillValue` attributes are not applied, and
        darks whose scale or offset is another than the frames' are refused.

        Args:
            path: a folder that is a Zarr store, or the address of one: `s3://`, `gs://`, `az://`, `https://`, `file://`.
            frames_path: the array of frames, where it is not called `frames`. `dark`, `pixel_mask` and
                `frame_number` are looked for beside it.
            missing_chunks: what a missing chunk is: an "error", or its fill value ("fill").

        Raises:
            ArchiveError: it is not an archive, or its arrays do not fit together.
        """
        location = location_of(os.fspath(path))
        arrays = find_arrays(store_folder(location), frames_path, missing_chunks)
        return cls(ArchiveAddress(location, frames_path, missing_chunks), arrays)

    def __reduce__(self) -> tuple[Any, tuple[ArchiveAddress]]:
        return (ArchiveAddress.open, (self.address,))

    def __repr__(self) -> str:
        rows, columns = self.frame_shape
        return f"FrameArchive({self.address.path!r}, {self.n_frames} frames of {rows}×{columns} {self.dtype})"

    @property
    def frames(self) -> "zarr.Array[Any]":
        """The frames (frame, y, x), as a Zarr array; reading a missing chunk raises."""
        return self._frames.array

    @property
    def dark(self) -> "zarr.Array[Any] | None":
        """The dark frames (dark_frame, y, x), as a Zarr array, or None if there are none."""
        return None if self._arrays.dark is None else self._arrays.dark.array

    @property
    def stored_arrays(self) -> Mapping[str, StoredArray]:
        """The arrays of the archive by what they are: `frames` and, where there are any, `dark` and so on."""
        arrays = self._arrays
        found = {
            "frames": arrays.frames,
            "dark": arrays.dark,
            "pixel_mask": arrays.pixel_mask,
            "frame_number": arrays.frame_number,
        }
        return {name: array for name, array in found.items() if array is not None}

    @cached_property
    def pixel_mask(self) -> npt.NDArray[np.uint32] | None:
        """The pixel mask (y, x), NeXus bits (any of the low 16 set = masked), or None."""
        if self._arrays.pixel_mask is None:
            return None
        mask = self._arrays.pixel_mask.read_new(0, self.frame_shape[0])
        return mask.astype(np.uint32)

    @property
    def frame_shape(self) -> tuple[int, int]:
        """Pixels of a frame, (y, x)."""
        return (int(self.frames.shape[1]), int(self.frames.shape[2]))

    @property
    def gain_bits(self) -> int:
        """Bits above the value in the detector's 16-bit words, as far as the metadata say so; else 0.

        They do in an attribute `gain_bits` of the frames or of the archive, or by the name of a detector that is known
        to have them (see `frame_archive.detector_words`).

        Raises:
            ArchiveError: the attribute is no number of bits.
        """
        return gain_bits_of(self.address.path, self.frames.attrs.asdict(), self.attrs, self.dtype)

    @property
    def n_frames(self) -> int:
        """How many frames there are."""
        return int(self.frames.shape[0])

    @property
    def n_dark(self) -> int:
        """How many dark frames there are."""
        return 0 if self.dark is None else int(self.dark.shape[0])

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The integer type of the frames, in native byte order."""
        return self._frames.dtype

    @property
    def frame_nbytes(self) -> int:
        """Bytes of one decoded frame."""
        return self.frame_shape[0] * self.frame_shape[1] * self.dtype.itemsize

    @property
    def block_nbytes(self) -> int:
        """Bytes of the largest block that `blocks` yields by default."""
        return min(self._block_frames(DEFAULT_BLOCK_NBYTES), self.n_frames) * self.frame_nbytes

    def _block_frames(self, max_bytes: int) -> int:
        chunk = self._frames.rows_per_chunk
        return max(1, max_bytes // (chunk * self.frame_nbytes)) * chunk

    def blocks(self, start: int, stop: int, max_bytes: int = DEFAULT_BLOCK_NBYTES) -> Iterator[tuple[int, int]]:
        """Yield ranges (a, b) that cover frames `start` to `stop` and end where stored chunks end.

        A block is at most `max_bytes`, or one row of stored chunks where that is more, so that each chunk is
        decoded once.
        """
        step = self._block_frames(max_bytes)
        a = start
        while a < stop:
            b = min((a // step + 1) * step, stop)
            yield a, b
            a = b

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file systems, and not on an object store."""
        return not is_url(self.address.path)

    def ahead(self) -> ChunksAhead:
        """What fetches chunks from an object store ahead of one thread that reads them; of a local archive, nothing."""
        return self._frames.ahead()

    def expect(self, start: int, stop: int, ahead: ChunksAhead) -> None:
        """Begin to fetch frames `start` to `stop`, or the first of them, which will be read with `ahead`."""
        self._frames.expect(start, stop, ahead)

    def read(
        self,
        start: int,
        stop: int,
        out: npt.NDArray[Any],
        use: ReadUse | None = None,
        ahead: ChunksAhead | None = None,
    ) -> None:
        """Decode frames `start` to `stop` into `out`.

        Args:
            start: the first frame.
            stop: one past the last.
            out: (frame, y, x), C-contiguous, writable, of `dtype`; pinned memory will do.
            use: what it took is added here.
            ahead: what was asked to fetch them.

        Raises:
            ArchiveError: a chunk is missing, damaged or cut short; the message names its file and frames.
            ValueError: `out` or the range does not fit.
        """
        self._frames.read(start, stop, out, use, ahead)

    def read_dark(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return dark frames `start` to `stop`, (dark_frame, y, x), in native byte order.

        Raises:
            ArchiveError: as `read`, or there are no darks.
        """
        if self._arrays.dark is None:
            raise ArchiveError(f"{self.address.path} holds no dark frames")
        return self._arrays.dark.read_new(start, stop)

    def frame_numbers(self, start: int, stop: int) -> npt.NDArray[np.uint64]:
        """Return the detector's own numbers of frames `start` to `stop`, or their positions if it kept none."""
        if self._arrays.frame_number is None:
            return np.arange(start, stop, dtype=np.uint64)
        numbers = self._arrays.frame_number.read_new(start, stop)
        if numbers.dtype.kind == "i" and numbers.size and int(numbers.min()) < 0:
            where = f"{self.address.path}/{self._arrays.frame_number.name}"
            raise ArchiveError(f"{where} holds the negative frame number {numbers.min()}")
        return numbers.astype(np.uint64)

    def missing_chunks(self, start: int, stop: int, at_most: int = 10) -> list[str]:
        """Return the keys of the first stored chunks of frames `start` to `stop` that are not there, in order.

        Takes time for the chunks that are there, not for those that the metadata claims.

        Args:
            start: the first frame.
            stop: one past the last.
            at_most: the most keys to return; where there are so many, there may be more.

        Raises:
            ArchiveError: the file system does not say, or the index of a shard cannot be read.
        """
        return self._frames.missing_chunks(start, stop, at_most)

    def stored_bytes(self, start: int, stop: int) -> int:
        """Return the bytes on disk of the chunks that frames `start` to `stop` lie in."""
        return self._frames.stored_bytes(start, stop)

    def stamp(self, start: int, stop: int) -> str:
        """Return a digest of the sizes and times of the files that frames `start` to `stop` lie in.

        It is the same again as long as nobody has written to any of them.

        Raises:
            ArchiveError: the file system does not say.
        """
        return self._frames.stamp(start, stop)

    def chunk_paths(self, start: int, stop: int) -> list[str]:
        """Return the paths of the files that hold frames `start` to `stop`, in order; missing ones are left out.

        Raises:
            ArchiveError: the archive is on an object store, which has no files.
        """
        if not self.is_local:
            raise ArchiveError(f"{self.address.path} is on an object store, and this takes files: give a local archive")
        paths = (Path(self.address.path) / chunk.key for chunk in self._frames.stored_chunks(start, stop))
        return [str(path) for path in paths if path.is_file()]

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of the arrays' metadata, the attributes and the mask: what a run may be resumed on."""
        described = {
            "attrs": self.attrs,
            "arrays": self._arrays.documents,
            "missing_chunks": self.address.missing_chunks,
        }
        digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
        if self.pixel_mask is not None:
            digest.update(self.pixel_mask.tobytes())
        return digest.hexdigest()
