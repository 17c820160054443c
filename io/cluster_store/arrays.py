"""Zarr arrays as this package writes them: chunk grid, codecs, dimension names, and no chunk ever left out."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV3Metadata

from guarded_zarr import writable_store
from object_stores import ObjectAddress, is_url

StorePath = str | PathLike[str]

# Zarr leaves out a chunk that holds nothing but the fill value unless it is told otherwise, and then a chunk that was
# lost cannot be told from one that is all zeros. This setting is not kept in the store: it is given on every opening.
WRITE_EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}


BLOSC_NAME: Literal["lz4"] = "lz4"
BLOSC_LEVEL = 5


def location_of(path: StorePath) -> str:
    """The address of a store as a string: that of an object store as it is, a local path made absolute.

    Raises:
        AddressError: It is an address of nothing that is known here.
    """
    text = str(path)
    return str(ObjectAddress.parse(text)) if is_url(text) else str(Path(text).absolute())


def compressors_for(dtype: np.dtype[Any]) -> tuple[BytesBytesCodec, ...]:
    """Blosc-LZ4 with bitshuffle, then crc32c.

    Measured on one core with 3×3 int32 windows of simulated photons (MB/s written, MB/s read, ratio):
    LZ4 bitshuffle 560, 990, 2.4; LZ4 byte shuffle 390, 640, 1.7; zstd-1 bitshuffle 360, 940, 2.9; none 640, 1250, 1.
    """
    blosc = BloscCodec(cname=BLOSC_NAME, clevel=BLOSC_LEVEL, shuffle="bitshuffle", typesize=dtype.itemsize)
    return (blosc, Crc32cCodec())


def create_array(
    group: zarr.Group,
    name: str,
    *,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: np.dtype[Any] | str,
    dims: tuple[str, ...],
    attrs: Mapping[str, Any],
    overwrite: bool = False,
) -> zarr.Array[ArrayV3Metadata]:
    """Create one array in `group`, named dimensions and codecs included, and return it open for writing."""
    dtype = np.dtype(dtype)
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype.newbyteorder("="),
        dimension_names=dims,
        attributes=dict(attrs),
        serializer=BytesCodec(endian="little" if dtype.itemsize > 1 else None),
        compressors=compressors_for(dtype),
        fill_value=0,
        config=WRITE_EVERY_CHUNK,
        overwrite=overwrite,
    )


def open_for_chunks(location: str, name: str, n_rows: int | None = None) -> zarr.Array[ArrayV3Metadata]:
    """Open array `name` for writing whole chunks, optionally seen as if it had `n_rows` rows already.

    The length on disk stays what it is: only the end of the run sets it, once, so that writers need not agree on it
    and an array never shrinks.
    """
    array = zarr.open_array(writable_store(location), path=name, mode="r+", zarr_format=3)
    metadata = array.metadata
    assert isinstance(metadata, ArrayV3Metadata)
    if n_rows is not None:
        metadata = metadata.update_shape((n_rows, *metadata.shape[1:]))
    opened = zarr.AsyncArray(metadata=metadata, store_path=array.store_path, config=WRITE_EVERY_CHUNK)
    # A reader in the same process may have set another pipeline globally (zarrs, whose writes are not atomic).
    object.__setattr__(opened, "codec_pipeline", BatchedCodecPipeline.from_codecs(metadata.codecs))
    return zarr.Array(opened)
