"""One array of an archive: read into a given buffer, with what is missing or damaged named."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr
from zarr.buffer.cpu import NDBuffer

from frame_archive.complete_store import MissingChunkError
from frame_archive.errors import ArchiveError
from frame_archive.plain_chunks import ChunkError, plain_layout
from frame_archive.shards import shard_layout

MissingChunks = Literal["error", "fill"]


@dataclass(frozen=True)
class StoredChunk:
    """One object in the store: a chunk, or a shard of chunks.

    Attributes:
        key: relative to the archive.
        coordinates: its place in the grid of stored objects.
        first, last: the frames it covers, `last` excluded.
    """

    key: str
    coordinates: tuple[int, ...]
    first: int
    last: int


class StoredArray:
    """An array in a local store, its first axis the frames (or, for a mask, the rows).

    Args:
        array: opened read-only.
        archive: the archive's folder.
        missing_chunks: "error" raises where a chunk is missing, "fill" reads the array's fill value.
    """

    def __init__(self, array: "zarr.Array[Any]", archive: Path, missing_chunks: MissingChunks) -> None:
        self.array = array
        self.dtype: np.dtype[Any] = np.dtype(array.dtype).newbyteorder("=")
        self._archive = archive
        self._missing_chunks = missing_chunks
        self._rows = "rows" if array.ndim == 2 else "frames"
        self._prefix = f"{array.path}/" if array.path else ""
        self._grid = array.shards or array.chunks
        self._plain = plain_layout(array)
        self._shards = shard_layout(array)

    @property
    def name(self) -> str:
        """The array's path in the archive, or the archive's name if it is a bare array."""
        return self.array.path or self._archive.name

    @property
    def rows_per_chunk(self) -> int:
        """Frames that are decoded together: of a chunk, or of an inner chunk of a shard."""
        return int(self.array.chunks[0])

    def read(self, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Decode rows `start` to `stop` into `out`, which has their shape, C order and the native dtype.

        Raises:
            ArchiveError: a chunk is missing, damaged or cut short.
            ValueError: `out` or the range does not fit.
        """
        if not 0 <= start <= stop <= self.array.shape[0]:
            raise ValueError(f"{self.name} has {self.array.shape[0]} {self._rows}: {start}:{stop} is not among them")
        shape = (stop - start, *self.array.shape[1:])
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError(
                f"{self._rows} {start}:{stop} need a writable C-ordered buffer of {shape} {self.dtype}, "
                f"not {out.shape} {out.dtype}"
            )
        if start == stop:
            return
        if self._plain is not None:
            self._read_plain(start, stop, out)
        else:
            self._read_through_zarr(start, stop, out)

    def _read_plain(self, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        assert self._plain is not None
        for chunk in self.stored_chunks(start, stop):
            a, b = max(start, chunk.first), min(stop, chunk.last)
            rows = out[a - start : b - start]
            try:
                self._plain.read(self._archive / chunk.key, a - chunk.first, rows)
            except FileNotFoundError:
                if self._missing_chunks == "error":
                    raise self._missing(chunk.key, chunk.first, chunk.last) from None
                rows[...] = self._fill_value
            except ChunkError as error:
                raise self._damaged(chunk, error) from error
            except OSError as error:
                raise self._unreadable(chunk, error) from error

    def _read_through_zarr(self, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        if self._shards is not None and self._missing_chunks == "error":
            missing = self.missing_chunks(start, stop)
            if missing:
                raise self._missing(missing[0], start, stop)
        try:
            self._select((slice(start, stop),), out)
        except Exception as error:
            # zarr reads many chunks at once and does not say which of them failed.
            raise self._culprit(start, stop) or self._unexplained(start, stop, error) from error

    def _select(self, selection: tuple[slice, ...], out: npt.NDArray[Any]) -> None:
        self.array.get_basic_selection(selection, out=NDBuffer.from_numpy_array(out))

    def _culprit(self, start: int, stop: int) -> ArchiveError | None:
        for chunk in self.stored_chunks(start, stop):
            region = tuple(
                slice(place * side, min((place + 1) * side, length))
                for place, side, length in zip(chunk.coordinates, self._grid, self.array.shape, strict=True)
            )
            try:
                self._select(region, np.empty([part.stop - part.start for part in region], self.dtype))
            except MissingChunkError as error:
                return self._missing(error.key, chunk.first, chunk.last)
            except Exception as error:
                # gzip reports damage as an OSError too, but without a number.
                refused = isinstance(error, OSError) and error.errno is not None
                return self._unreadable(chunk, error) if refused else self._damaged(chunk, error)
        return None

    def stored_chunks(self, start: int, stop: int) -> Iterator[StoredChunk]:
        """Yield the chunks (or shards) that rows `start` to `stop` lie in, in order."""
        if stop <= start:
            return
        side, length = self._grid[0], self.array.shape[0]
        others = [range(-(-extent // step)) for extent, step in zip(self.array.shape[1:], self._grid[1:], strict=True)]
        encode = self.array.metadata.encode_chunk_key
        for row in range(start // side, -(-stop // side)):
            for rest in itertools.product(*others):
                coordinates = (row, *rest)
                key = self._prefix + encode(coordinates)
                yield StoredChunk(key, coordinates, row * side, min((row + 1) * side, length))

    def missing_chunks(self, start: int, stop: int) -> list[str]:
        """Return the keys of the chunks of rows `start` to `stop` that are not in the store.

        An inner chunk left out of a shard is given as the shard's key and the chunk's place in it.
        """
        missing = []
        for chunk, size in self._sizes(start, stop):
            if size is None:
                missing.append(chunk.key)
            elif self._shards is not None:
                missing.extend(self._missing_in_shard(chunk, start, stop))
        return missing

    def stored_bytes(self, start: int, stop: int) -> int:
        """Return the bytes on disk of the chunks that rows `start` to `stop` lie in."""
        return sum(size or 0 for _, size in self._sizes(start, stop))

    def _sizes(self, start: int, stop: int) -> Iterator[tuple[StoredChunk, int | None]]:
        chunks = self.stored_chunks(start, stop)
        if "/" in self.array.metadata.encode_chunk_key((0,) * self.array.ndim):
            # Each chunk has folders of its own: one look at the file costs less than listing them.
            for chunk in chunks:
                yield chunk, _size_of(self._archive / chunk.key)
        else:
            try:
                with os.scandir(self._archive / self.array.path) as entries:
                    listing = {self._prefix + entry.name: entry for entry in entries}
            except OSError as error:
                raise ArchiveError(f"{self._archive / self.array.path} cannot be listed: {error}") from error
            for chunk in chunks:
                entry = listing.get(chunk.key)
                yield chunk, None if entry is None else entry.stat().st_size

    def _missing_in_shard(self, shard: StoredChunk, start: int, stop: int) -> list[str]:
        assert self._shards is not None
        try:
            present = self._shards.present(self._archive / shard.key)
        except ValueError as error:
            raise self._damaged(shard, error) from error
        origin = [place * count for place, count in zip(shard.coordinates, self._shards.chunks_per_shard, strict=True)]
        missing = []
        for inner in np.argwhere(~present):
            place = [int(first + step) for first, step in zip(origin, inner, strict=True)]
            corner = [step * side for step, side in zip(place, self.array.chunks, strict=True)]
            inside = all(at < length for at, length in zip(corner, self.array.shape, strict=True))
            if inside and corner[0] < stop and corner[0] + self.rows_per_chunk > start:
                missing.append(f"{shard.key} (inner chunk {'/'.join(map(str, place))})")
        return missing

    @property
    def _fill_value(self) -> Any:
        value = self.array.fill_value
        return 0 if value is None else value

    def _missing(self, key: str, first: int, last: int) -> ArchiveError:
        return ArchiveError(
            f"{self._archive / key} is missing, with {self._rows} {first}:{last} of {self.name}: copy the archive "
            "again, or, if its writer leaves out chunks of zeros, read them as such with --missing-chunks fill"
        )

    def _damaged(self, chunk: StoredChunk, cause: Exception) -> ArchiveError:
        return ArchiveError(
            f"{self._archive / chunk.key}, with {self._rows} {chunk.first}:{chunk.last} of {self.name}, is damaged or "
            f"cut short: {cause}; restore that file from its source"
        )

    def _unreadable(self, chunk: StoredChunk, cause: Exception) -> ArchiveError:
        return ArchiveError(
            f"{self._archive / chunk.key}, with {self._rows} {chunk.first}:{chunk.last} of {self.name}, cannot be "
            f"read: {getattr(cause, 'strerror', None) or cause}"
        )

    def _unexplained(self, start: int, stop: int, cause: Exception) -> ArchiveError:
        return ArchiveError(f"{self._rows} {start}:{stop} of {self.name} in {self._archive} cannot be read: {cause}")


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
