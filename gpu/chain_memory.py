"""A chain's own memory on the device: its pedestal and its counts, from one call to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder import Pedestal
from gpu.device import Device

# Bytes a pixel before each plane. What is uploaded together lies together, and so does what is downloaded together.
X0, S1, S2, VARIANCE, OTHER_S1, OTHER_S2, COUNTS = 0, 8, 12, 16, 20, 24, 28
UPLOADED, STATE, COUNTED = 20, 8, 16
NBYTES_A_PIXEL = COUNTS + COUNTED
N_COUNTS = 4  # Updated, blind, centres, switched.


class ChainMemory:
    """The planes of one chain, all (y, x).

    Args:
        device: where.
        n_pixels: of a frame.
    """

    def __init__(self, device: Device, n_pixels: int) -> None:
        self._memory = device.allocate(NBYTES_A_PIXEL * n_pixels)
        self._n_pixels = n_pixels

    def plane(self, offset: int) -> int:
        """The address of a plane."""
        return self._memory.address + offset * self._n_pixels

    def addresses(self) -> dict[str, Any]:
        """The planes' addresses, as the parameter block has them."""
        counts = {
            name: self.plane(COUNTS + 4 * i) for i, name in enumerate(("updated", "blind", "centres", "switched"))
        }
        return {
            "s1": (self.plane(S1), self.plane(OTHER_S1)),
            "s2": (self.plane(S2), self.plane(OTHER_S2)),
            "x0": self.plane(X0),
            "trained_variance": self.plane(VARIANCE),
            **counts,
        }


def packed_planes(pedestal: Pedestal, wide: bool, target: NDArray[np.uint8]) -> None:
    """Write what a chain starts from to `target`, as it lies on the device."""
    n_pixels = pedestal.x0.size
    planes = target[: UPLOADED * n_pixels]
    x0 = planes[: S1 * n_pixels].view(np.int64 if wide else np.int32)[:n_pixels]
    # Where 32 bits are too few X0 is not looked at.
    x0[:] = pedestal.x0.reshape(-1) if wide else (pedestal.x0.reshape(-1) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    for plane, values in ((S1, pedestal.s1), (S2, pedestal.s2), (VARIANCE, pedestal.trained_variance)):
        planes[plane * n_pixels : (plane + 4) * n_pixels].view(np.float32)[:] = values.reshape(-1)
