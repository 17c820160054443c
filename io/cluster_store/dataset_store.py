"""The store of a dataset that is read: what is missing or damaged in it is an error that names the file."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from cluster_store.errors import DatasetError
from guarded_zarr import METADATA_NAMES, GuardedStore, GuardError, blosc_sizes, largest_stored, require_blosc_length

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


class DatasetStore(GuardedStore):
    """A dataset's folder, for reading; Zarr itself reads a chunk that is not there as zeros.

    Args:
        root: the dataset.
        forms: of the arrays that are known, by name.
    """

    def __init__(self, root: Path | str, *, read_only: bool = True, forms: Mapping[str, ChunkForm] | None = None):
        super().__init__(root)
        self.forms = dict(forms or {})

    def with_read_only(self, read_only: bool = True) -> "DatasetStore":
        """Return this store: it is for reading, whatever is asked."""
        return type(self)(self.root, forms=self.forms)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes at `key`; None only for metadata that is not there.

        Raises:
            DatasetError: a chunk is missing or damaged, or is not read.
            OSError: it cannot be read.
        """
        try:
            content = await super().get(key, prototype, byte_range)
        except GuardError as error:
            raise DatasetError(f"{self.root}/{key} is not read: {error}.") from error
        if content is None:
            if key.rpartition("/")[2] in METADATA_NAMES:
                return None
            raise DatasetError(
                f"{self.root} lacks the chunk {key}; copy the dataset again, or make it anew with `process`."
            )
        form = self.forms.get(key.partition("/")[0])
        if form is not None and byte_range is None and key.rpartition("/")[2] not in METADATA_NAMES:
            self._check(key, form, content.to_bytes())
        return content

    def _check(self, key: str, form: ChunkForm, stored: bytes) -> None:
        try:
            form.require(stored)
        except GuardError as error:
            raise DatasetError(
                f"{self.root}/{key} is damaged ({error}); copy the dataset again, or make it anew with `process`."
            ) from error
