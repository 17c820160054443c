"""A Zarr store as what reads it sees it, wherever it lies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Literal, Protocol, Self

LARGEST_METADATA = 16 << 20
"""Bytes; parsed, JSON takes some twenty times as many."""


class OpenedFile(Protocol):
    """The bytes of a chunk, to be read from the beginning."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go somewhere, as files do."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """The next bytes, into a buffer; returns how many."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object:
        """Let it go."""


class StoreFolder(ABC):
    """A Zarr store's folder, for reading; keys are those of the store.

    Attributes:
        path: its path or address.
    """

    path: str

    def place(self, key: str) -> str:
        """The path or address of what has a key, for people."""
        return f"{self.path}/{key}" if key else self.path

    @abstractmethod
    def kind(self) -> Literal["absent", "file", "folder"]:
        """What there is; raises OSError where that is not said."""

    @abstractmethod
    def is_there(self, key: str) -> bool:
        """Whether there is anything at `key`, be it a folder or a link that leads nowhere."""

    @abstractmethod
    def folders(self, key: str) -> list[str]:
        """The names of the folders in the folder `key`, in order; links are left out, and so are very many."""

    @abstractmethod
    def metadata(self, key: str) -> bytes:
        """Return a metadata file; raises as `open`, and a GuardError where it is longer than metadata is."""

    @abstractmethod
    def open(self, key: str, largest: int) -> OpenedFile:
        """Open a chunk.

        Args:
            key: of the chunk.
            largest: the most bytes that it can rightly have.

        Raises:
            GuardError: it is not to be read.
            OSError: it is not there (FileNotFoundError), is a folder, or can't be read.
        """

    @abstractmethod
    def ends(self, key: str, nbytes: int, *, first: bool) -> tuple[int, bytes]:
        """A file's length, and its first or last `nbytes` bytes, or all if it has fewer; raises as `open`."""
