"""Chunks of a dataset on a local disk, encoded and written without zarr's pipeline, to the bytes that it would write.

Zarr makes an array, a buffer and a task of each step that a chunk goes through. Of what a chunk of clusters cost a core
that was two thirds, copies and fresh memory for the most part; the rest is one call to Blosc, a checksum and a file.
"""

import os
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from numcodecs import blosc
from zarr.codecs import BytesCodec
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import LocalStore

from cluster_store.arrays import BLOSC_LEVEL, BLOSC_NAME, compressors_for


@dataclass(frozen=True)
class ChunkFiles:
    """The files of one array's chunks.

    Attributes:
        folder: The array's.
        metadata: The array's.
    """

    folder: Path
    metadata: ArrayV3Metadata

    @staticmethod
    def of(array: "zarr.Array[ArrayV3Metadata]") -> "ChunkFiles | None":
        """Those of an array as this package makes them in a local folder; None where it takes zarr to write them."""
        store, metadata = array.store_path.store, array.metadata
        dtype: np.dtype[Any] = array.dtype
        codecs: list[Any] = [BytesCodec(endian="little" if dtype.itemsize > 1 else None), *compressors_for(dtype)]
        if type(store) is not LocalStore or sys.byteorder != "little" or not isinstance(metadata, ArrayV3Metadata):
            return None
        if metadata.to_dict()["codecs"] != tuple(codec.to_dict() for codec in codecs):
            return None
        return ChunkFiles(store.root / array.store_path.path, metadata)

    def write(self, number: int, values: npt.NDArray[Any]) -> int:
        """Write chunk `number` along the first dimension; others see all of it or nothing.

        Args:
            number: Of the chunk.
            values: The whole of it, C-contiguous, of the array's type.

        Returns:
            The bytes of the file.

        Raises:
            OSError: The file system refuses.
        """
        body = blosc.compress(values, BLOSC_NAME.encode(), BLOSC_LEVEL, blosc.BITSHUFFLE)
        checksum = google_crc32c.value(body).to_bytes(4, "little")
        key = self.metadata.encode_chunk_key((number, *(0,) * (values.ndim - 1)))
        _write_whole(self.folder / key, (body, checksum))
        return len(body) + len(checksum)


def _write_whole(path: Path, parts: tuple[bytes, ...]) -> None:
    half_written = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with half_written.open("xb", buffering=0) as file:
            for part in parts:
                view = memoryview(part)
                while len(view):
                    view = view[os.write(file.fileno(), view) :]
        half_written.replace(path)
    except BaseException:
        with suppress(OSError):
            half_written.unlink()
        raise
