"""A Zarr store in which a chunk that is not there is an error.

The Zarr format reads a missing chunk as fill values, which is right for sparse data and wrong for a detector's
frames: a chunk lost on a full disk or in half a copy would become frames of zeros. An array opened through
`CompleteStore` raises instead, however it is read.
"""

from collections.abc import Iterable

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from frame_archive.errors import ArchiveError
from guarded_zarr import METADATA_NAMES


class MissingChunkError(ArchiveError):
    """A chunk that the array's metadata promises is not in the store.

    Attributes:
        key: the chunk's key in the store.
    """

    def __init__(self, key: str) -> None:
        super().__init__(
            f"chunk {key} is missing from the store: copy the archive again, or, if its writer leaves out chunks "
            "of zeros, open it with missing_chunks='fill' (--missing-chunks fill)"
        )
        self.key = key

    def __reduce__(self) -> tuple[type["MissingChunkError"], tuple[str]]:
        return (type(self), (self.key,))


class CompleteStore(WrapperStore[Store]):
    """Any Zarr store, except that reading a missing chunk raises `MissingChunkError`."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the bytes at `key`; None only for metadata that is not there."""
        value = await super().get(key, prototype, byte_range)
        return self._present(key, value)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the bytes of several ranges; None only for metadata that is not there."""
        ranges = list(key_ranges)
        values = await super().get_partial_values(prototype, ranges)
        return [self._present(key, value) for (key, _), value in zip(ranges, values, strict=True)]

    @staticmethod
    def _present(key: str, value: Buffer | None) -> Buffer | None:
        if value is None and key.rpartition("/")[2] not in METADATA_NAMES:
            raise MissingChunkError(key)
        return value
