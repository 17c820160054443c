"""A real GPU, through CuPy."""

from __future__ import annotations

from gpu.device import Device


def open_device() -> Device:
    """The first GPU that this process sees.

    Raises:
        RuntimeError: it cannot be used, and why.
    """
    raise RuntimeError("this version has no CUDA finder yet: use the backend 'cpu'")
