"""The GPUs of this machine as its driver lists them (NVML), without initialising CUDA.

A process that has initialised CUDA holds memory on each GPU, and can't be forked; the process that starts workers must
not. The library comes with the driver and is called by its C interface: no package is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_NOT_LOADED = 9
_MIG_ENABLED = 1
_TEXT_BYTES = 96


class NoDriverError(RuntimeError):
    """There is no NVIDIA driver, or it does not answer."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG instance of one, that a process can have for itself.

    Args:
        index: Of the card, in the order of the PCI bus.
        uuid: As ``CUDA_VISIBLE_DEVICES`` takes it.
        name: What its maker calls the card.
        pci_address: Of the card, as Linux writes it: ``0000:65:00.0``.
    """

    index: int
    uuid: str
    name: str
    pci_address: str


@dataclass(frozen=True)
class Driver:
    """What the driver says.

    Args:
        gpus: In the order of the PCI bus; of a card in MIG mode, its instances.
        version: Of the driver, such as ``570.86.15``.
        cuda: The newest CUDA that it can run, (major, minor).
    """

    gpus: tuple[Gpu, ...]
    version: str
    cuda: tuple[int, int]


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


def ask_driver() -> Driver:
    """The GPUs of this machine, all of them, whatever ``CUDA_VISIBLE_DEVICES`` says.

    Raises:
        NoDriverError: There is no driver, or it doesn't answer.
    """
    with _nvml() as library:
        cuda = ctypes.c_int()
        _check(library, library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)))
        version = ctypes.create_string_buffer(_TEXT_BYTES)
        _check(library, library.nvmlSystemGetDriverVersion(version, _TEXT_BYTES))
        count = ctypes.c_uint()
        _check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        gpus = tuple(gpu for index in range(count.value) for gpu in _gpus_of_card(library, index))
        return Driver(gpus, version.value.decode(), (cuda.value // 1000, cuda.value % 1000 // 10))


def _gpus_of_card(library: Any, index: int) -> Iterator[Gpu]:
    card = ctypes.c_void_p()
    _check(library, library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(card)))
    name = _text(library, library.nvmlDeviceGetName, card)
    place = _PciInfo()
    _check(library, library.nvmlDeviceGetPciInfo_v3(card, ctypes.byref(place)))
    address = f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0"
    instances = list(_instances(library, card))
    for uuid in instances or [_text(library, library.nvmlDeviceGetUUID, card)]:
        yield Gpu(index, uuid, name, address)


def _instances(library: Any, card: ctypes.c_void_p) -> Iterator[str]:
    """UUIDs of the MIG instances of a card; none of one that is not, or can't be, in that mode."""
    mode, pending, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    if library.nvmlDeviceGetMigMode(card, ctypes.byref(mode), ctypes.byref(pending)) or mode.value != _MIG_ENABLED:
        return
    if library.nvmlDeviceGetMaxMigDeviceCount(card, ctypes.byref(most)):
        return
    for place in range(most.value):
        instance = ctypes.c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(card, ctypes.c_uint(place), ctypes.byref(instance)) == 0:
            yield _text(library, library.nvmlDeviceGetUUID, instance)


@contextmanager
def _nvml() -> Iterator[Any]:
    try:
        library: Any = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise NoDriverError(f"there is no NVIDIA driver on this machine ({_LIBRARY} is not there)") from error
    code = library.nvmlInit_v2()
    if code:
        what = "its kernel module is not loaded" if code == _NOT_LOADED else "does not answer"
        raise NoDriverError(f"the NVIDIA driver is installed, but {what} ({_reason(library, code)})")
    try:
        yield library
    finally:
        library.nvmlShutdown()


def _text(library: Any, function: Any, handle: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(library, function(handle, text, ctypes.c_uint(_TEXT_BYTES)))
    return text.value.decode(errors="replace")


def _check(library: Any, code: int) -> None:
    if code:
        raise NoDriverError(f"the NVIDIA driver does not answer: {_reason(library, code)}")


def _reason(library: Any, code: int) -> str:
    library.nvmlErrorString.restype = ctypes.c_char_p
    text: bytes = library.nvmlErrorString(code)
    return text.decode()
