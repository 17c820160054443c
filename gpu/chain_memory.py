"""A chain's own memory on the device: its pedestal and its counts, from one call to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder import Pedestal
from finder.products import ProductOptions
from gpu.device import Device
from gpu.product_memory import ProductMemory

# Bytes a pixel before each plane. What is uploaded together lies together, and so does what is downloaded together.
X0, S1, S2, VARIANCE, OTHER_S1, OTHER_S2, COUNTS = 0, 8, 12, 16, 20, 24, 28
UPLOADED, STATE, COUNTED = 20, 8, 16
NBYTES_A_PIXEL = COUNTS + COUNTED
N_COUNTS = 4  # Updated, blind, centres, switched.
CENTRES = 2


class ChainMemory:
    """The planes of one chain, all (y, x), and what it counts of its clusters.

    Args:
        device: where.
        n_pixels: of a frame.
        products: what is counted.

    Attributes:
        counted: how its counts lie.
    """

    def __init__(self, device: Device, n_pixels: int, products: ProductOptions | None = None) -> None:
        self._memory = device.allocate(NBYTES_A_PIXEL * n_pixels)
        self._n_pixels = n_pixels
        self.counted = ProductMemory(products or ProductOptions())
        self._products = device.allocate(self.counted.nbytes) if self.counted.nbytes else None

    def plane(self, offset: int) -> int:
        """The address of a plane."""
        return self._memory.address + offset * self._n_pixels

    @property
    def products(self) -> int:
        """The address of what is counted, `counted.nbytes`; 0 where nothing is."""
        return 0 if self._products is None else self._products.address

    def addresses(self) -> dict[str, Any]:
        """Where everything is, as the parameter block has it."""
        counts = {
            name: self.plane(COUNTS + 4 * i) for i, name in enumerate(("updated", "blind", "centres", "switched"))
        }
        return {
            "s1": (self.plane(S1), self.plane(OTHER_S1)),
            "s2": (self.plane(S2), self.plane(OTHER_S2)),
            "x0": self.plane(X0),
            "trained_variance": self.plane(VARIANCE),
            **counts,
            **self.counted.fields(self.products),
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
