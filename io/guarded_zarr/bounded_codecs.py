"""Decompressing what claims to be a chunk, into no more bytes than a chunk has.

A few kilobytes can decompress to many gigabytes, by design or by a flipped bit in a header. Each format here is either
decompressed piece by piece up to a limit, or says in its headers what it can come to at most.
"""

import bz2
import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs import blosc, lz4, zstd

from guarded_zarr.errors import GuardError

BLOSC_HEADER_BYTES = 16
_LZMA_MEMORY = 1 << 30
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES = 128 << 10

Bytes = npt.NDArray[np.uint8]


def blosc_sizes(body: Bytes) -> tuple[int, int]:
    """Return the decoded bytes and the stored bytes of a Blosc buffer, by its header.

    Raises:
        GuardError: it is too short for a header.
    """
    if body.size < BLOSC_HEADER_BYTES:
        raise GuardError(f"its {body.size} bytes are too few for a Blosc buffer")
    decoded, _, stored = struct.unpack_from("<III", body.data, 4)
    return decoded, stored


def require_blosc_length(body: Bytes, stored: int) -> None:
    """Make sure that a Blosc buffer has as many bytes as its header says: Blosc reads on where it has fewer.

    Raises:
        GuardError: it has not.
    """
    if stored != body.size:
        raise GuardError(f"it has {body.size} bytes where its Blosc header says {stored}")


def _too_large(limit: int) -> GuardError:
    return GuardError(f"it decodes to more than the {limit} bytes of a chunk")


def _blosc(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    decoded, stored = blosc_sizes(body)
    if decoded > limit:
        raise _too_large(limit)
    require_blosc_length(body, stored)
    return bytes(blosc.decompress(body))


def _lz4(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    if body.size < 4:
        raise GuardError(f"its {body.size} bytes are too few for an LZ4 buffer")
    (decoded,) = struct.unpack_from("<I", body.data)
    if decoded > limit:
        raise _too_large(limit)
    return bytes(lz4.decompress(body))


def _zstd(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    # What the blocks come to at most is one block more than they do, if they are full but for the last.
    content, at_most = _zstd_sizes(bytes(body))
    if content is None:
        if at_most > limit + _ZSTD_BLOCK_BYTES:
            raise _too_large(limit)
        return bytes(zstd.decompress(body))
    if content > limit:
        raise _too_large(limit)
    return bytes(zstd.decompress(body))


def _zstd_sizes(body: bytes) -> tuple[int | None, int]:
    """The bytes that the first frame of Zstandard data says it comes to, and what all blocks come to at most.

    RFC 8878, sections 3.1.1.1 (frame header) and 3.1.1.2 (blocks).
    """
    if len(body) < 6 or struct.unpack_from("<I", body)[0] != _ZSTD_MAGIC:
        raise GuardError("it does not begin as a Zstandard frame")
    descriptor = body[4]
    single_segment = bool(descriptor & 0x20)
    size_bytes = (int(single_segment), 2, 4, 8)[descriptor >> 6]
    at = 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if size_bytes:
        content = int.from_bytes(body[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        return content, content
    at_most, last = 0, False
    while not last and at + 3 <= len(body):
        block = int.from_bytes(body[at : at + 3], "little")
        last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
        at_most += _ZSTD_BLOCK_BYTES if kind == 2 else size
        at += 3 + (1 if kind == 1 else size)
    if not last or len(body) > at + (4 if descriptor & 4 else 0):
        raise GuardError("it is not one whole Zstandard frame")
    return None, at_most


def _gzip(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(body.data)) as opened:
        decoded = opened.read(limit + 1)
    if len(decoded) > limit:
        raise _too_large(limit)
    return decoded


def _zlib(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    return _in_one_stream(zlib.decompressobj(), body, limit)


def _bz2(body: Bytes, limit: int, _: Mapping[str, Any]) -> bytes:
    return _in_one_stream(bz2.BZ2Decompressor(), body, limit)


def _lzma(body: Bytes, limit: int, configuration: Mapping[str, Any]) -> bytes:
    form, filters = configuration.get("format", lzma.FORMAT_XZ), configuration.get("filters")
    memory = None if form == lzma.FORMAT_RAW else _LZMA_MEMORY
    chain = filters if form == lzma.FORMAT_RAW else None
    return _in_one_stream(lzma.LZMADecompressor(form, memory, chain), body, limit)


def _in_one_stream(decompressor: Any, body: Bytes, limit: int) -> bytes:
    decoded: bytes = decompressor.decompress(body.data, limit + 1)
    if len(decoded) > limit:
        raise _too_large(limit)
    if not decompressor.eof:
        raise GuardError("its compressed data ends too early")
    return decoded


Decode = Callable[[Bytes, int, Mapping[str, Any]], bytes]

DECODERS: Mapping[str, Decode] = {
    "blosc": _blosc,
    "bz2": _bz2,
    "gzip": _gzip,
    "lz4": _lz4,
    "lzma": _lzma,
    "zlib": _zlib,
    "zstd": _zstd,
}
"""By codec: from a buffer, the most bytes it may come to, and the codec's configuration, the decoded bytes."""
