"""What ceilings are wanted of: an archive, and the dataset that would be made of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store import DatasetLayout
from finder import FinderParameters
from frame_archive import FrameArchive, ReadUse
from object_stores import is_url
from pipeline.ceilings.machine import storage_of


@dataclass(frozen=True)
class Subject:
    """The archive whose ceilings are wanted, and the dataset that would be made of it.

    Args:
        archive: The archive.
        layout: Of the dataset.
        out: Where the dataset lies, or would; nothing is written but a folder beside it, for some seconds.
        parameters: What finds the clusters that are written.
        pixel_mask: NeXus bits (y, x), or None.
    """

    archive: FrameArchive
    layout: DatasetLayout
    out: str
    parameters: FinderParameters
    pixel_mask: npt.NDArray[np.uint32] | None = None

    def decode(self, *, apart: bool) -> str:
        """The name of the ceiling on decoding this archive: archives of the same layout share it.

        Args:
            apart: False where zarr reads and decodes: then it is one on both together, from the page cache.
        """
        return f"{'decode' if apart else 'read + decode'} {self._chunks}"

    def reads_apart(self) -> bool:
        """Whether the archive says how long its files were read and how long they were decoded: a frame is read.

        Raises:
            ArchiveError: It can't be read.
        """
        archive, use = self.archive, ReadUse()
        first = np.empty((1, *archive.frame_shape), archive.dtype)
        archive.read(0, 1, first, use)
        return not use.together_seconds

    def write(self) -> str:
        """The name of the ceiling on encoding and writing such a dataset at such a place."""
        window = "×".join(map(str, self.layout.cluster_size))
        return f"write {self.layout.signal_dtype} {window} to {self._storage_of_dataset}"

    def read(self, *, cold: bool) -> str:
        """The name of the ceiling on reading files where the archive lies."""
        return f"read {'cold' if cold else 'warm'} {self._storage_of_archive}"

    def measured_by(self) -> str:
        """The command that measures the ceilings, with what it can't guess; empty where one is an object store's."""
        address, layout = self.archive.address, self.layout
        if is_url(address.path) or is_url(self.out):
            return ""
        words = ["photonflow", "roofline", "measure", address.path]
        if address.frames_path is not None:
            words += ["--frames-path", address.frames_path]
        if layout.cluster_size != (3, 3):
            words += ["--cluster-size", "x".join(map(str, layout.cluster_size))]
        if layout.signal_dtype != "int32":
            words += ["--signal-dtype", layout.signal_dtype]
        if self._storage_of_archive != self._storage_of_dataset:
            words += ["--out", self.out]
        return shlex.join(words)

    # A run asks for the names after each of its batches.

    @cached_property
    def _chunks(self) -> str:
        frames = self.archive.frames
        chunk = "×".join(map(str, frames.shards or frames.chunks))
        return f"{self.archive.dtype} {chunk} {_codecs(frames.metadata.to_dict())}"

    @cached_property
    def _storage_of_archive(self) -> str:
        return storage_of(self.archive.address.path)

    @cached_property
    def _storage_of_dataset(self) -> str:
        return storage_of(self.out)


def _codecs(metadata: dict[str, Any]) -> str:
    """The codecs of an array with what decides how fast they decode: ``blosc-lz4-bitshuffle+crc32c``."""
    codecs = metadata["codecs"] if metadata["zarr_format"] == 3 else [metadata["compressor"] or {"id": "uncompressed"}]
    return "+".join(map(_codec, codecs))


def _codec(codec: Any) -> str:
    about = codec if isinstance(codec, dict) else codec.get_config()
    settings = about.get("configuration", {}) if "name" in about else about
    if inner := settings.get("codecs"):
        return f"shards of {'×'.join(map(str, settings['chunk_shape']))} {'+'.join(map(_codec, inner))}"
    parts = (about.get("name") or about["id"], settings.get("cname"), settings.get("shuffle"))
    return "-".join(str(getattr(part, "value", part)) for part in parts if part is not None)
