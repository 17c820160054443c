"""The compiled finders: one for each window, noise and tracking. Numba comes in only when one is to be compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finder.compiled_code import Code
from finder.kernel_types import Kernel

SOURCES = (
    "gain_bits.py",
    "kernel.py",
    "kernel_count.py",
    "kernel_decide.py",
    "kernel_fields.py",
    "kernel_instructions.py",
    "kernel_subtract.py",
    "kernel_types.py",
    "simd.py",
)


def find_clusters_code(kernel: Kernel) -> Code:
    """`finder.kernel.find_clusters` for a kernel."""
    seconds = round(10 + 0.2 * kernel.rows * kernel.cols)
    return Code(f"find_clusters_{kernel.name}", _find_clusters, SOURCES, kernel.description, seconds)


def add_up_code(kernel: Kernel) -> Code:
    """`finder.kernel_count.add_up` for a kernel."""
    return Code(f"add_up_{kernel.name}", _add_up, SOURCES, "the counting of pixels", 2)


def _find_clusters() -> Callable[..., Any]:
    from finder.kernel import find_clusters

    return find_clusters


def _add_up() -> Callable[..., Any]:
    from finder.kernel_count import add_up

    return add_up
