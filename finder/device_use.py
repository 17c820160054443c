"""What frames took of a device that has a memory of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceUse:
    """What a GPU did for some frames; all zero where none did.

    Attributes:
        h2d_seconds: in which frames were on their way to it, in s. While several streams are at a stage, each moment
            counts for one of them: the sum over all is the time in which any was.
        kernel_seconds: in which kernels ran, likewise.
        d2h_seconds: in which clusters were on their way from it, likewise.
        h2d_bytes: bytes of frames.
        d2h_bytes: bytes of clusters.
    """

    h2d_seconds: float = 0.0
    kernel_seconds: float = 0.0
    d2h_seconds: float = 0.0
    h2d_bytes: int = 0
    d2h_bytes: int = 0

    def __add__(self, other: DeviceUse) -> DeviceUse:
        """Both together."""
        return DeviceUse(
            self.h2d_seconds + other.h2d_seconds,
            self.kernel_seconds + other.kernel_seconds,
            self.d2h_seconds + other.d2h_seconds,
            self.h2d_bytes + other.h2d_bytes,
            self.d2h_bytes + other.d2h_bytes,
        )

    @property
    def is_any(self) -> bool:
        """Whether a GPU did anything."""
        return self.h2d_bytes > 0
