"""Chunks that are whole frames, encoded and written as files: what `plain_chunks` reads.

A chunk appears under its name when it is whole: a writer that is killed leaves a `.partial` file, never half a chunk.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from numcodecs.blosc import Blosc

from frame_archive.kept_memory import Bytes, KeptMemory
from frame_archive.plain_chunks import plain_layout

ReadRows = Callable[[int, int, npt.NDArray[Any]], None]
"""Fills its third argument, (row, y, x), C-contiguous, with rows from the first to the second."""

_PARTIAL = ".partial"
_SHUFFLES = {"noshuffle": Blosc.NOSHUFFLE, "shuffle": Blosc.SHUFFLE, "bitshuffle": Blosc.BITSHUFFLE}


@dataclass(frozen=True)
class ChunkEncoder:
    """How the chunks of a plain array are encoded.

    Attributes:
        array: whose chunks they are; opened, in a local folder.
        folder: the array's.
        blosc: the compressor, or None.
        checksum: whether a CRC-32C ends a chunk.
    """

    array: "zarr.Array[Any]"
    folder: Path
    blosc: Blosc | None
    checksum: bool

    @staticmethod
    def of(array: "zarr.Array[Any]", folder: Path) -> "ChunkEncoder | None":
        """Return the encoder of `array`, whose chunks lie in `folder`, or None if it takes zarr to write them."""
        layout = plain_layout(array)
        if layout is None or array.metadata.zarr_format != 3:
            return None
        metadata: dict[str, Any] = dict(array.metadata.to_dict())
        codecs = {codec["name"]: codec.get("configuration", {}) for codec in metadata["codecs"]}
        if not layout.compressed:
            return ChunkEncoder(array, folder, None, layout.checksum)
        settings = codecs["blosc"]
        shuffle = _SHUFFLES.get(str(settings["shuffle"]))
        if shuffle is None or settings["typesize"] != layout.dtype.itemsize:
            return None
        blosc = Blosc(settings["cname"], settings["clevel"], shuffle, settings.get("blocksize", 0))
        return ChunkEncoder(array, folder, blosc, layout.checksum)

    def write_whole(self, start: int, values: npt.NDArray[Any]) -> int:
        """Write the whole chunks that `values` begin with, from row `start`, a chunk's first; return how many rows.

        Raises:
            OSError: the file system refuses.
        """
        rows = self.array.chunks[0]
        native = np.ascontiguousarray(values, dtype=self.array.dtype.newbyteorder("="))
        for number in range(len(values) // rows):
            self.write(start // rows + number, native[number * rows : (number + 1) * rows])
        return len(values) // rows * rows

    def write(self, number: int, values: npt.NDArray[Any]) -> None:
        """Write chunk `number` along the first axis; `values` are the whole of it, C-contiguous, of the array's dtype.

        Raises:
            OSError: the file system refuses.
        """
        body = values.reshape(-1).view(np.uint8) if self.blosc is None else self.blosc.encode(values)
        self._write(number, [body])

    @property
    def takes_pieces(self) -> bool:
        """Whether a chunk can be written piece by piece: one that is compressed is encoded as a whole."""
        return self.blosc is None

    def write_as_read(self, number: int, read: ReadRows, rows_at_once: int) -> None:
        """Write chunk `number` of an array that `takes_pieces` while it is read.

        A few rows at a time fit into a core's own cache: each is read, looked at and written while it is there.

        Raises:
            OSError: the file system refuses.
        """
        self._write(number, self._pieces(number, read, rows_at_once))

    def _pieces(self, number: int, read: ReadRows, rows_at_once: int) -> Iterator[Bytes]:
        dtype, (rows, *plane) = self.array.dtype.newbyteorder("="), self.array.chunks
        memory = _piece(rows_at_once * prod(plane) * dtype.itemsize).view(dtype).reshape(rows_at_once, *plane)
        for first in range(0, rows, rows_at_once):
            last = min(first + rows_at_once, rows)
            piece = memory[: last - first]
            read(number * rows + first, number * rows + last, piece)
            yield piece.reshape(-1).view(np.uint8)

    def _write(self, number: int, body: Iterable[Any]) -> None:
        name = self.array.metadata.encode_chunk_key((number, 0, 0))
        _write_whole(self.folder / name, _with_checksum(body) if self.checksum else body)


def open_for_writing(folder: Path) -> "tuple[zarr.Array[Any], ChunkEncoder | None]":
    """Return the array in `folder`, and its encoder if it is plain; kept open, for opening takes as long as writing.

    Raises:
        OSError: it is not there.
    """
    status = (folder / "zarr.json").stat()
    stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
    kept = _kept.get(folder)
    if kept is not None and kept[0] == stamp:
        return kept[1], kept[2]
    # open_array takes a config and forgets it; without with_config, chunks of zeros would be left out.
    array = zarr.open_array(folder, mode="r+", zarr_format=3).with_config({"write_empty_chunks": True})
    encoder = ChunkEncoder.of(array, folder)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[folder] = (stamp, array, encoder)
    return array, encoder


_MOST_KEPT = 32
_kept: "dict[Path, tuple[tuple[int, int, int], zarr.Array[Any], ChunkEncoder | None]]" = {}


_piece = KeptMemory()


def _with_checksum(parts: Iterable[Any]) -> Iterator[Any]:
    checksum = 0
    for part in parts:
        checksum = google_crc32c.extend(checksum, part)
        yield part
    yield checksum.to_bytes(4, "little")


def remove_halves(folder: Path) -> None:
    """Remove what writers that were killed have left of chunks in `folder`; nobody may be writing there.

    Raises:
        OSError: the file system refuses.
    """
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(_PARTIAL):
                Path(where, name).unlink(missing_ok=True)


def _write_whole(path: Path, parts: Iterable[Any]) -> None:
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{_PARTIAL}")
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            for part in parts:
                view = memoryview(part)
                while len(view):
                    view = view[os.write(file, view) :]
        finally:
            os.close(file)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
