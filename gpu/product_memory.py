"""What a chain counts on the device of its clusters: where it lies, and how it becomes `Products`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from finder.products import ProductOptions, Products
from finder.rounding import SignalRangeError

NBYTES_A_BIN = 8


class ProductMemory:
    """The counts of one chain, as kernels/products.cu adds to them: spectrum, eta, values that are too large.

    Args:
        options: what is counted.
    """

    def __init__(self, options: ProductOptions) -> None:
        self._options = options
        self._n_spectrum = len(options.spectrum) + 2 if "spectrum" in options.names else 0
        self._n_eta = options.eta_bins**2 + 1 if "eta" in options.names else 0

    @property
    def nbytes(self) -> int:
        """Bytes on the device; 0 where nothing is counted."""
        return NBYTES_A_BIN * (self._n_spectrum + self._n_eta + 1) if self._options.names else 0

    def fields(self, address: int) -> dict[str, Any]:
        """What the parameter block says of counts that lie at an address."""
        if not self._options.names:
            return {}
        eta = address + NBYTES_A_BIN * self._n_spectrum
        bins = self._options.spectrum
        return {
            "spectrum": address if self._n_spectrum else 0,
            "eta": eta if self._n_eta else 0,
            "too_large": eta + NBYTES_A_BIN * self._n_eta,
            "spectrum_low": bins.low,
            "spectrum_width": bins.width,
            "spectrum_bins": len(bins),
            "eta_bins": self._options.eta_bins,
        }

    def products(self, content: NDArray[np.uint8], centres: NDArray[np.uint32]) -> Products:
        """The counts as they came from the device.

        Args:
            content: (nbytes).
            centres: (y, x), how often each pixel was a cluster's centre: the hit map.

        Raises:
            SignalRangeError: a value that fits no int32.
        """
        counts = content.view(np.int64)
        if counts[-1]:
            raise SignalRangeError("a signal does not fit int32, in which products are counted")
        hit_map = centres.astype(np.int64) if "hitmap" in self._options.names else np.zeros((0, 0), np.int64)
        return Products(counts[: self._n_spectrum], hit_map, counts[self._n_spectrum : -1])
