"""Zarr arrays whose chunks decode within bounds, and what their codecs are called."""

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import zarr
from numcodecs.abc import Codec as Numcodec
from zarr.abc.codec import BytesBytesCodec, Codec
from zarr.abc.store import Store
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata

from guarded_zarr.bounded_codecs import DECODERS, Bytes
from guarded_zarr.errors import GuardError
from guarded_zarr.metadata_json import cut_short

# A chunk that does not compress grows a little; one of many small inner chunks has an index.
_GROWTH = 16
_SLACK = 64 << 10


def largest_stored(nbytes: int) -> int:
    """The most bytes that a chunk of `nbytes` bytes is stored in."""
    return nbytes + nbytes // _GROWTH + _SLACK


def opened_array(store: Store, path: str, zarr_format: int, set_limit: Callable[[int], None]) -> "zarr.Array[Any]":
    """Open the array at `path` of `store` for reading; its chunks decode within bounds.

    Args:
        store: the store.
        path: of the array in it.
        zarr_format: 2 or 3.
        set_limit: told the most bytes that a chunk (or shard) of it is stored in.

    Raises:
        Exception: of any kind, over metadata that zarr does not understand.
    """
    array = zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format)  # type: ignore[arg-type]
    bound_decoding(array)
    set_limit(largest_stored(prod(array.shards or array.chunks) * np.dtype(array.dtype).itemsize))
    return array


def bound_decoding(array: "zarr.Array[Any]") -> None:
    """Let chunks of `array` decode to no more bytes than their shape takes.

    That holds for Blosc, LZ4, Zstandard, gzip, zlib, bz2 and LZMA; what other codecs decode is not bounded.
    """
    metadata = array.metadata
    if isinstance(metadata, ArrayV2Metadata):
        # Filters may widen the elements; to eight bytes at most.
        largest = prod(metadata.chunks) * (8 if metadata.filters else np.dtype(array.dtype).itemsize)
        filters = tuple(_BoundedNumcodec.of(codec, largest) for codec in metadata.filters or ()) or None
        compressor = metadata.compressor and _BoundedNumcodec.of(metadata.compressor, largest)
        codecs: Iterable[Codec] = [V2Codec(filters=filters, compressor=compressor)]
    else:
        codecs = [_bounded(codec) for codec in metadata.codecs]
    pipeline = BatchedCodecPipeline.from_codecs(codecs)
    object.__setattr__(array.async_array, "codec_pipeline", pipeline)


def _bounded(codec: Codec) -> Codec:
    if isinstance(codec, ShardingCodec):
        return ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=[_bounded(inner) for inner in codec.codecs],
            index_codecs=[_bounded(inner) for inner in codec.index_codecs],
            index_location=codec.index_location,
        )
    name, configuration = _described(codec)
    if isinstance(codec, BytesBytesCodec) and name in DECODERS:
        return _BoundedCodec(name, tuple(configuration.items()), codec.is_fixed_size)
    return codec


def _described(codec: Codec) -> tuple[str, dict[str, Any]]:
    described: dict[str, Any] = dict(codec.to_dict())
    return str(described["name"]).removeprefix("numcodecs."), dict(described.get("configuration") or {})


@dataclass(frozen=True)
class _BoundedCodec(BytesBytesCodec):
    """A codec of Zarr v3, for decoding only."""

    name: str
    configuration: tuple[tuple[str, Any], ...]
    is_fixed_size: bool

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        native = chunk_spec.dtype.to_native_dtype()
        limit = largest_stored(prod(chunk_spec.shape) * native.itemsize)
        body = chunk_bytes.as_numpy_array().reshape(-1).view(np.uint8)
        decoded = await asyncio.to_thread(DECODERS[self.name], body, limit, dict(self.configuration))
        return chunk_spec.prototype.buffer.from_bytes(decoded)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError


class _BoundedNumcodec(Numcodec):  # type: ignore[misc]
    """A codec of Zarr v2, for decoding only."""

    def __init__(self, codec: Any, largest: int) -> None:
        self._codec = codec
        self._limit = largest_stored(largest)
        self.codec_id = codec.codec_id

    @classmethod
    def of(cls, codec: Any, largest: int) -> Any:
        """The bounded codec; the codec itself where its decoding needs no bounds, or has none."""
        return cls(codec, largest) if codec.codec_id in DECODERS else codec

    def decode(self, buf: Any, out: Any = None) -> Any:
        body: Bytes = np.ascontiguousarray(np.frombuffer(buf, np.uint8))
        return DECODERS[self.codec_id](body, self._limit, self._codec.get_config())

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError


def require_holdable(nbytes: int) -> None:
    """Refuse to read so much into memory as this machine does not have.

    Raises:
        MemoryError: It is too much.
    """
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # a system that does not say
        return
    if nbytes > memory:
        raise MemoryError(f"{nbytes} bytes are more than this machine's memory")


def codec_names(array: "zarr.Array[Any]") -> list[str]:
    """The codecs a chunk goes through, in order, those inside shards included; Blosc with what it holds.

    Raises:
        GuardError: they are described in a way that is not known here.
    """
    metadata = array.metadata
    try:
        if isinstance(metadata, ArrayV3Metadata):
            return _v3_names(metadata.to_dict()["codecs"])
        codecs = [*(metadata.filters or ()), *([metadata.compressor] if metadata.compressor else [])]
        shuffles = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle", -1: "shuffle"}
        configs = [codec.get_config() for codec in codecs]
        return [_named(c["id"], c | {"shuffle": shuffles.get(c.get("shuffle", 0))}) for c in configs]
    except (KeyError, TypeError, AttributeError) as error:
        raise GuardError(f"its codecs cannot be told: {cut_short(error)}") from error


def _v3_names(codecs: Any) -> list[str]:
    names: list[str] = []
    for codec in codecs:
        configuration = codec.get("configuration", {})
        if codec["name"] == "sharding_indexed":
            names += _v3_names(configuration["codecs"])
        elif codec["name"] != "bytes":
            names.append(_named(codec["name"].removeprefix("numcodecs."), configuration))
    return names


def _named(name: str, configuration: dict[str, Any]) -> str:
    if name == "blosc":
        return f"blosc ({configuration['cname']}, level {configuration['clevel']}, {configuration['shuffle']})"
    return name
