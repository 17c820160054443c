"""One array of an archive: read into a given buffer, with what is missing or damaged named."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr
from zarr.buffer.cpu import NDBuffer

from frame_archive.ahead import ChunksAhead
from frame_archive.chunk_files import ChunkFiles
from frame_archive.chunk_grid import Grid, StoredChunks, coordinates_in
from frame_archive.chunk_objects import ChunkObjects
from frame_archive.complete_store import MissingChunkError
from frame_archive.errors import ArchiveError, cause
from frame_archive.plain_chunks import plain_layout
from frame_archive.read_use import ReadUse
from frame_archive.shards import shard_layout
from guarded_zarr import (
    GuardError,
    LocalFolder,
    ObjectFolder,
    RefusedError,
    StoreFolder,
    largest_stored,
    require_holdable,
)
from object_stores import StoreFaultError

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
    """An array in a store, its first axis the frames (or, for a mask, the rows).

    Args:
        array: opened read-only, of a `guarded_store`.
        store: the archive's folder.
        missing_chunks: "error" raises where a chunk is missing, "fill" reads the array's fill value.
    """

    def __init__(self, array: "zarr.Array[Any]", store: StoreFolder, missing_chunks: MissingChunks) -> None:
        self.array = array
        self.dtype: np.dtype[Any] = np.dtype(array.dtype).newbyteorder("=")
        self._store = store
        self._missing_chunks = missing_chunks
        self._rows = "rows" if array.ndim == 2 else "frames"
        self._prefix = f"{array.path}/" if array.path else ""
        self._grid = array.shards or array.chunks
        self._plain = plain_layout(array)
        self._shards = shard_layout(array)
        self._chunks = _chunks_of(array, store)

    @property
    def name(self) -> str:
        """The array's path in the archive, or the archive's name if it is a bare array."""
        return self.array.path or self._store.path.rstrip("/").rpartition("/")[2]

    @property
    def rows_per_chunk(self) -> int:
        """Frames that are decoded together: of a chunk, or of an inner chunk of a shard."""
        return int(self.array.chunks[0])

    def ahead(self) -> ChunksAhead:
        """What fetches chunks ahead of one thread that reads them; see `expect`."""
        nbytes = prod(self._grid) * self.dtype.itemsize
        return ChunksAhead(self._store, nbytes, largest_stored(nbytes))

    def expect(self, start: int, stop: int, ahead: ChunksAhead) -> None:
        """Begin to fetch the chunks of rows `start` to `stop`, which will be read with `ahead`."""
        if self._plain is not None and not ahead.is_local:
            ahead.expect(chunk.key for chunk in self.stored_chunks(start, stop))

    def read(
        self,
        start: int,
        stop: int,
        out: npt.NDArray[Any],
        use: ReadUse | None = None,
        ahead: ChunksAhead | None = None,
    ) -> None:
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
        use = ReadUse() if use is None else use
        if self._plain is not None:
            if ahead is not None or isinstance(self._store, LocalFolder):
                self._read_plain(start, stop, out, use, ahead)
                return
            with self.ahead() as ahead:
                self.expect(start, stop, ahead)
                self._read_plain(start, stop, out, use, ahead)
            return
        begun = time.perf_counter()
        self._read_through_zarr(start, stop, out)
        use.add(together_seconds=time.perf_counter() - begun)

    def _read_plain(
        self, start: int, stop: int, out: npt.NDArray[Any], use: ReadUse, ahead: ChunksAhead | None
    ) -> None:
        assert self._plain is not None
        source = self._store if ahead is None else ahead
        for chunk in self.stored_chunks(start, stop):
            a, b = max(start, chunk.first), min(stop, chunk.last)
            rows = out[a - start : b - start]
            try:
                self._plain.read(source, chunk.key, a - chunk.first, rows, use)
            except FileNotFoundError:
                if self._missing_chunks == "error":
                    raise self._missing(chunk.key, chunk.first, chunk.last) from None
                rows[...] = self._fill_value
            except (OSError, RefusedError) as error:
                raise self._unreadable(chunk, error) from error
            except GuardError as error:
                raise self._damaged(chunk, error) from error
            except MemoryError as error:
                raise self._chunk_too_large() from error

    def _read_through_zarr(self, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        if self._shards is not None and self._missing_chunks == "error":
            missing = self.missing_chunks(start, stop, at_most=1)
            if missing:
                raise self._missing(missing[0], start, stop)
        try:
            self._select((slice(start, stop),), out)
        except StoreFaultError as error:
            raise self._unexplained(start, stop, error) from error
        except Exception as error:
            # zarr reads many chunks at once and does not say which of them failed.
            raise self._culprit(start, stop) or self._unexplained(start, stop, error) from error

    def read_new(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop`, in native byte order; raises as `read`, and where they are too many to hold.

        Raises:
            ArchiveError: as `read`, or memory does not suffice.
        """
        shape = (max(stop - start, 0), *self.array.shape[1:])
        try:
            require_holdable(prod(shape) * self.dtype.itemsize)
            out = np.empty(shape, self.dtype)
        except (MemoryError, ValueError) as error:  # NumPy's ValueError: more than addresses can say.
            raise self._too_large(prod(shape) * self.dtype.itemsize, f"{self._rows} {start}:{stop}") from error
        self.read(start, stop, out)
        return out

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
            except MemoryError:
                return self._chunk_too_large()
            except Exception as error:
                # gzip reports damage as an OSError too, but without a number.
                refused = isinstance(error, RefusedError) or (isinstance(error, OSError) and error.errno is not None)
                return self._unreadable(chunk, error) if refused else self._damaged(chunk, error)
        return None

    def stored_chunks(self, start: int, stop: int) -> Iterator[StoredChunk]:
        """Yield the chunks (or shards) that rows `start` to `stop` lie in, in order."""
        grid = self._grid_of(start, stop)
        for number in range(prod(map(len, grid))):
            yield self._chunk(grid, number)

    def _grid_of(self, start: int, stop: int) -> Grid:
        side = self._grid[0]
        others = [range(-(-extent // step)) for extent, step in zip(self.array.shape[1:], self._grid[1:], strict=True)]
        return [range(start // side, -(-stop // side) if start < stop else start // side), *others]

    def _chunk(self, grid: Grid, number: int) -> StoredChunk:
        coordinates = coordinates_in(grid, number)
        key = self._prefix + self.array.metadata.encode_chunk_key(coordinates)
        first = coordinates[0] * self._grid[0]
        return StoredChunk(key, coordinates, first, min(first + self._grid[0], self.array.shape[0]))

    def missing_chunks(self, start: int, stop: int, at_most: int = 10) -> list[str]:
        """Return the keys of the first `at_most` chunks of rows `start` to `stop` that are not in the store.

        An inner chunk left out of a shard is given as the shard's key and the chunk's place in it.
        """
        return list(islice(self._missing_keys(start, stop), at_most))

    def _missing_keys(self, start: int, stop: int) -> Iterator[str]:
        grid = self._grid_of(start, stop)
        due = 0
        for number, _ in self._chunks.abouts(grid):
            yield from (self._chunk(grid, absent).key for absent in range(due, number))
            if self._shards is not None:
                yield from self._missing_in_shard(self._chunk(grid, number), start, stop)
            due = number + 1
        yield from (self._chunk(grid, absent).key for absent in range(due, prod(map(len, grid))))

    def stored_bytes(self, start: int, stop: int) -> int:
        """Return the bytes on disk of the chunks that rows `start` to `stop` lie in."""
        return sum(about.size for _, about in self._chunks.abouts(self._grid_of(start, stop)))

    def stamp(self, start: int, stop: int) -> str:
        """Return a digest of the sizes and times of the chunks that rows `start` to `stop` lie in."""
        digest = hashlib.blake2b(digest_size=16)
        for number, about in self._chunks.abouts(self._grid_of(start, stop)):
            digest.update(f"{number} {about.size} {about.version}\n".encode())
        return digest.hexdigest()

    def _missing_in_shard(self, shard: StoredChunk, start: int, stop: int) -> list[str]:
        assert self._shards is not None
        try:
            present = self._shards.present(self._store, shard.key)
        except (OSError, RefusedError) as error:
            raise self._unreadable(shard, error) from error
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

    def _chunk_too_large(self) -> ArchiveError:
        return self._too_large(prod(self._grid) * self.dtype.itemsize, f"a chunk of {self._grid} elements")

    def _too_large(self, nbytes: int, what: str) -> ArchiveError:
        return ArchiveError(
            f"{what} of {self.name} in {self._store.path} takes {nbytes} bytes, more than this machine can hold: use a "
            "machine with more memory, or, if the detector is not that large, restore the array's metadata"
        )

    def _missing(self, key: str, first: int, last: int) -> ArchiveError:
        every = self._grid_of(0, self.array.shape[0])
        if next(iter(self._chunks.abouts(every)), None) is None:
            instead = ", or give --pedestal" if self.name.rpartition("/")[2] == "dark" else ""
            return ArchiveError(
                f"{self._store.place(key)} is missing, with {self._rows} {first}:{last} of {self.name}, and so is "
                "every chunk of it: it was never written or not copied; write it with frame_archive.ArchiveWriter, "
                f"copy it, read it as fill values with --missing-chunks fill{instead}"
            )
        return ArchiveError(
            f"{self._store.place(key)} is missing, with {self._rows} {first}:{last} of {self.name}: copy the archive "
            "again, or, if its writer leaves out chunks of zeros, read them as such with --missing-chunks fill"
        )

    def _damaged(self, chunk: StoredChunk, error: Exception) -> ArchiveError:
        return ArchiveError(
            f"{self._store.place(chunk.key)}, with {self._rows} {chunk.first}:{chunk.last} of {self.name}, is damaged "
            f"or cut short: {cause(error)}; restore that file from its source"
        )

    def _unreadable(self, chunk: StoredChunk, error: Exception) -> ArchiveError:
        return ArchiveError(
            f"{self._store.place(chunk.key)}, with {self._rows} {chunk.first}:{chunk.last} of {self.name}, cannot be "
            f"read: {getattr(error, 'strerror', None) or cause(error)}"
        )

    def _unexplained(self, start: int, stop: int, error: Exception) -> ArchiveError:
        return ArchiveError(
            f"{self._rows} {start}:{stop} of {self.name} in {self._store.path} cannot be read: {cause(error)}"
        )


def _chunks_of(array: "zarr.Array[Any]", store: StoreFolder) -> StoredChunks:
    if isinstance(store, ObjectFolder):
        return ChunkObjects.of(array, store)
    return ChunkFiles.of(array, Path(store.path))
