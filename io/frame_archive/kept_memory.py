"""Memory that a thread keeps from chunk to chunk: fresh memory costs more in page faults than decoding does."""

import threading

import numpy as np
import numpy.typing as npt

_MOST_KEPT = 64 << 20

Bytes = npt.NDArray[np.uint8]


class KeptMemory(threading.local):
    """One piece of memory for each thread, used anew with every call; what is very large is not kept."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint8)

    def __call__(self, nbytes: int) -> Bytes:
        """Return `nbytes` bytes, (byte), whose contents nobody needs any more."""
        if nbytes > self._kept.size:
            grown = np.empty(nbytes, np.uint8)
            if nbytes > _MOST_KEPT:
                return grown
            self._kept = grown
        return self._kept[:nbytes]
