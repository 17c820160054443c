"""What an archive is made of, and in which parts it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from frame_archive import Compression
from frame_formats import FrameSource, Gathered

Verify = Literal["sample", "all", "none"]
Kind = Literal["frames", "dark"]
DEFAULT_FRAMES_PER_CHUNK = 20
# A chunk of the largest detectors would not fit many times into a worker; a part is what a worker does in one go.
_CHUNK_BYTES, _PART_BYTES = 32 << 20, 32 << 20
# What a source packs together is decoded once, up to this.
_MOST_TOGETHER = 512 << 20
# To start a worker takes about as long as writing this.
_WORKER_BYTES = 256 << 20


@dataclass(frozen=True)
class Part:
    """Frames that one task reads and writes.

    Args:
        kind: Which array of the archive.
        start: Where the first goes; a chunk begins there.
        stop: One past the last; a chunk ends there, or the array.
        source: The frames, `stop - start` of them.
    """

    kind: Kind
    start: int
    stop: int
    source: FrameSource

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def nbytes(self) -> int:
        """Bytes of the frames, decoded."""
        y, x = self.source.frame_shape
        return len(self) * y * x * self.source.dtype.itemsize


@dataclass(frozen=True)
class IngestPlan:
    """All that an archive is made of.

    Args:
        gathered: The sources.
        dark: The dark frames, or None.
        dark_files: What they come from, in words: paths, or `first:N`.
        dark_attrs: What is said of them: exposure and so on.
        n_dark_first: How many of the sources' first frames are darks, and no frames.
        pixel_mask: (y, x) NeXus bits, or None.
        frames_per_chunk: Frames of a stored chunk.
        compression: Of the chunks.
        attrs: Attributes of the archive.
    """

    gathered: Gathered
    dark: FrameSource | None
    dark_files: tuple[str, ...]
    dark_attrs: Mapping[str, Any]
    n_dark_first: int
    pixel_mask: npt.NDArray[np.uint32] | None
    frames_per_chunk: int
    compression: Compression
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the frames and the darks."""
        return self.gathered.frames.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """(frame, y, x) of the archive's frames."""
        return (self.gathered.frames.n_frames - self.n_dark_first, *self.gathered.frames.frame_shape)

    @property
    def n_dark(self) -> int:
        """How many dark frames there are."""
        return 0 if self.dark is None else self.dark.n_frames

    @property
    def frame_nbytes(self) -> int:
        """Bytes of a frame, decoded."""
        return self.shape[1] * self.shape[2] * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all frames and darks, decoded."""
        return (self.shape[0] + self.n_dark) * self.frame_nbytes

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of one value a frame, (frame), by name."""
        gathered = self.gathered
        found = {"frame_number": gathered.frame_numbers, "frame_status": gathered.frame_status, **gathered.columns}
        return {name: values[self.n_dark_first :] for name, values in found.items() if values is not None}

    def parts(self) -> Iterator[Part]:
        """Yield the parts that make up the archive: the darks, then the frames."""
        if self.dark is not None:
            yield from self._parts("dark", self.dark, 0)
        yield from self._parts("frames", self.gathered.frames, self.n_dark_first)

    @property
    def n_parts(self) -> int:
        """How many parts there are."""
        n_frames = self.gathered.frames.n_frames - self.n_dark_first
        parts = -(-n_frames // self._frames_per_part(self.gathered.frames))
        return parts if self.dark is None else parts + -(-self.n_dark // self._frames_per_part(self.dark))

    @property
    def n_workers(self) -> int:
        """How many workers there is enough to do for."""
        return max(1, min(self.n_parts, self.nbytes // _WORKER_BYTES))

    def _parts(self, kind: Kind, source: FrameSource, first: int) -> Iterator[Part]:
        step = self._frames_per_part(source)
        n = source.n_frames - first
        for start in range(0, n, step):
            stop = min(start + step, n)
            yield Part(kind, start, stop, source.cut(first + start, first + stop))

    def _frames_per_part(self, source: FrameSource) -> int:
        chunk = self.frames_per_chunk
        chunks = _PART_BYTES // (chunk * self.frame_nbytes)
        # Frames that are decoded together would be decoded anew for each part that they lie in.
        together = -(-min(source.frames_together, max(_MOST_TOGETHER // self.frame_nbytes, 1)) // chunk)
        return chunk * max(1, chunks, together)

    @property
    def digest(self) -> str:
        """A SHA-256 of what the archive is made of, the files by size and time: a run goes on if it is the same."""
        gathered = self.gathered
        described = {
            "files": [_described(file.path) for file in gathered.files],
            "dark": [*self.dark_files, self.n_dark],
            "shape": self.shape,
            "dtype": str(self.dtype),
            "frames_per_chunk": self.frames_per_chunk,
            "compression": self.compression,
        }
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
        for values in (self.pixel_mask, gathered.frame_numbers, gathered.order):
            digest.update(b"-" if values is None else values.tobytes())
        return digest.hexdigest()


def _described(path: Path) -> list[Any]:
    # A Zarr store's folder keeps its time when a chunk changes, and so does its metadata: that is as much as there is.
    status = ((path / "zarr.json") if (path / "zarr.json").exists() else path).stat()
    return [str(path), status.st_size, status.st_mtime_ns]


def frames_per_chunk_for(frame_nbytes: int) -> int:
    """Return how many frames a chunk has where nobody says: 20, or fewer of a large detector's."""
    return max(1, min(DEFAULT_FRAMES_PER_CHUNK, _CHUNK_BYTES // max(frame_nbytes, 1)))
