"""The index of a Zarr shard: which of its inner chunks are there.

A shard is one stored object with many inner chunks and an index of (offset, length) pairs, 2⁶⁴ − 1 for a chunk that
was left out. zarr reads such a chunk as fill values, so the index is where a lost one can be seen.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import zarr

from guarded_zarr import StoreFolder

_ABSENT = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class ShardLayout:
    """Where the index of each shard lies and what it describes.

    Attributes:
        chunks_per_shard: inner chunks along each axis.
        index_nbytes: bytes of the index, its checksum included.
        index_first: whether the index starts the shard; else it ends it.
    """

    chunks_per_shard: tuple[int, ...]
    index_nbytes: int
    index_first: bool

    def present(self, store: StoreFolder, key: str) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return whether each inner chunk of the shard at `key` is there, shaped `chunks_per_shard`.

        Raises:
            RefusedError: what is there is not read.
            OSError: it cannot be read.
            ValueError: the shard is shorter than its index.
        """
        size, stored = store.ends(key, self.index_nbytes, first=self.index_first)
        if size < self.index_nbytes:
            raise ValueError(f"it has {size} bytes, fewer than the {self.index_nbytes} of its index")
        pairs = np.frombuffer(stored, "<u8", 2 * prod(self.chunks_per_shard)).reshape(*self.chunks_per_shard, 2)
        return np.asarray(pairs[..., 0] != _ABSENT)


def shard_layout(array: "zarr.Array[Any]") -> ShardLayout | None:
    """Return the layout of `array`'s shards; None if it has none, or an index that is not the usual one."""
    if array.shards is None:
        return None
    codecs = [dict(codec) for codec in array.metadata.to_dict()["codecs"]]  # type: ignore[arg-type, union-attr]
    configuration = codecs[0].get("configuration", {})
    if len(codecs) != 1 or codecs[0]["name"] != "sharding_indexed" or not isinstance(configuration, dict):
        return None
    index_codecs = [dict(codec) for codec in configuration["index_codecs"]]
    little = index_codecs[0] == {"name": "bytes", "configuration": {"endian": "little"}}
    rest = [codec["name"] for codec in index_codecs[1:]]
    if not little or rest not in ([], ["crc32c"]):
        return None
    per_shard = tuple(shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True))
    nbytes = 16 * prod(per_shard) + 4 * len(rest)
    return ShardLayout(
        per_shard,
        nbytes,
        str(getattr(configuration["index_location"], "value", configuration["index_location"])) == "start",
    )
