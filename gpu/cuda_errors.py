"""CUDA's error codes, and what they mean for whoever was using the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpu.device import DeviceError, LostDeviceError, OutOfDeviceMemoryError

OUT_OF_MEMORY = 2
NO_BINARY = (200, 209, 218, 222)
DRIVER_TOO_OLD = (34, 35, 36, 803, 804)
NO_DEVICE = (100, 101)
# After these, every call of the process fails with the same code: the context is gone, and only a new process gets
# another. Addresses, instructions, time limits, assertions, memory errors that can't be corrected, a card that fell
# off the bus.
STICKY = frozenset({3, 4, 46, 214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 806, 807, 999})


@contextmanager
def told_as_ours(what: str) -> Iterator[None]:
    """Turn CuPy's exceptions into the device's own.

    Args:
        what: What was being done, as the start of a sentence.

    Raises:
        OutOfDeviceMemoryError: There was no room.
        LostDeviceError: The GPU answers to nothing any more in this process.
        DeviceError: Anything else.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, DeviceError):
            raise
        raise device_error(what, error) from error


def device_error(what: str, error: RuntimeError) -> DeviceError:
    """The device's own exception for one of CuPy's, by its code."""
    code = getattr(error, "status", None)
    sentence = f"{what}: {error}"
    if code == OUT_OF_MEMORY:
        return OutOfDeviceMemoryError(sentence)
    if code in STICKY:
        return LostDeviceError(sentence)
    return DeviceError(sentence)


def driver_too_old(error: BaseException) -> bool:
    """Whether CUDA says that the driver is older than the toolkit that it was called from."""
    return getattr(error, "status", None) in DRIVER_TOO_OLD
