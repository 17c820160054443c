"""What reading took: time on the files, time on their codecs, bytes."""

from dataclasses import dataclass


@dataclass
class ReadUse:
    """What reads of an archive added up to.

    Attributes:
        read_seconds: time in which files were read, in s.
        decode_seconds: time in which their bytes were checked, decompressed and put in place, in s.
        together_seconds: time of reads through zarr, which does both and does not say how long each took, in s.
        stored_bytes: bytes of the files; those that zarr read are not known, and not in it.
    """

    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    together_seconds: float = 0.0
    stored_bytes: int = 0

    def add(
        self,
        *,
        read_seconds: float = 0.0,
        decode_seconds: float = 0.0,
        together_seconds: float = 0.0,
        stored_bytes: int = 0,
    ) -> None:
        """Add one read."""
        self.read_seconds += read_seconds
        self.decode_seconds += decode_seconds
        self.together_seconds += together_seconds
        self.stored_bytes += stored_bytes
