"""The store of a dataset that is read: what is missing or damaged in it is an error that names the file."""

import asyncio
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import google_crc32c
import numpy as np
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from cluster_store.errors import DatasetError
from guarded_zarr import (
    METADATA_NAMES,
    GuardedObjectStore,
    GuardedStore,
    GuardError,
    blosc_sizes,
    largest_stored,
    require_blosc_length,
)

_CRC_BYTES = 4


@dataclass(frozen=True)
class ChunkForm:
    """How the chunks of one array are stored.

    Attributes:
        nbytes: of one, decoded.
        blosc: whether each is a Blosc buffer.
        checksum: whether a CRC-32C of the rest ends each.
    """

    nbytes: int
    blosc: bool
    checksum: bool

    def require(self, stored: bytes) -> None:
        """Make sure that `stored` can be a chunk of the array.

        Raises:
            GuardError: it cannot.
        """
        if len(stored) > largest_stored(self.nbytes):
            raise GuardError(f"it has {len(stored)} bytes, more than any chunk of the array takes")
        body = np.frombuffer(stored, np.uint8)
        if self.checksum:
            body = body[:-_CRC_BYTES]
            if stored[-_CRC_BYTES:] != struct.pack("<I", google_crc32c.value(body)):
                raise GuardError("its CRC-32C does not match")
        if self.blosc:
            decoded, length = blosc_sizes(body)
            if decoded != self.nbytes:
                raise GuardError(f"it decodes to {decoded} bytes where {self.nbytes} are due")
            require_blosc_length(body, length)


class DatasetStore(WrapperStore[GuardedStore | GuardedObjectStore]):
    """A dataset's store, for reading; Zarr itself reads a chunk that is not there as zeros.

    Args:
        store: the dataset's; see :func:`cluster_store.run_identity.open_store`.
        location: where it is, for people.
        forms: of the arrays that are known, by name.
    """

    def __init__(
        self, store: GuardedStore | GuardedObjectStore, location: str, forms: Mapping[str, ChunkForm] | None = None
    ) -> None:
        super().__init__(store)
        self.location = location
        self.forms = dict(forms or {})

    def __str__(self) -> str:
        return self.location

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def _with_store(self, store: GuardedStore | GuardedObjectStore) -> "DatasetStore":
        return type(self)(store, self.location, self.forms)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes at `key`; None only for metadata that is not there.

        Raises:
            DatasetError: a chunk is missing or damaged, or is not read.
            OSError: it cannot be read.
        """
        place = f"{self.location}/{key}"
        try:
            content = await self._store.get(key, prototype, byte_range)
        except GuardError as error:
            raise DatasetError(f"{place} is not read: {error}.") from error
        if content is None:
            if key.rpartition("/")[2] in METADATA_NAMES:
                return None
            raise DatasetError(
                f"{self.location} lacks the chunk {key}; copy the dataset again, or make it anew with `process`."
            )
        form = self.forms.get(key.partition("/")[0])
        if form is not None and byte_range is None and key.rpartition("/")[2] not in METADATA_NAMES:
            try:
                form.require(content.to_bytes())
            except GuardError as error:
                raise DatasetError(
                    f"{place} is damaged ({error}); copy the dataset again, or make it anew with `process`."
                ) from error
        return content

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the bytes of several ranges; raises as `get`."""
        return await asyncio.gather(*(self.get(key, prototype, byte_range) for key, byte_range in key_ranges))
