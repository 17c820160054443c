"""Which finder to use."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from numpy.typing import ArrayLike

from finder.interface import Finder
from finder.parameters import FinderParameters
from finder.reference import ReferenceFinder

Backend = Literal["auto", "cpu", "cuda", "reference"]


def open_finder(
    backend: Backend | str,
    parameters: FinderParameters,
    shape: tuple[int, int],
    pixel_mask: ArrayLike | None = None,
) -> Finder:
    """A finder for frames of `shape` (y, x).

    Args:
        backend: "auto" (a GPU where one can be used, else the CPU), "cpu", "cuda" or "reference".
        parameters: what makes a cluster.
        shape: (y, x) of the frames.
        pixel_mask: (y, x) integers, NeXus bits, any of the low 16 set = masked; or bool, True = masked.

    Raises:
        ValueError: no such backend, or a mask of another shape.
        RuntimeError: the backend is not available here.
    """
    match chosen_backend(backend):
        case "cpu":
            from finder.cpu import CpuFinder  # late, as in finder.stored_code

            return CpuFinder(parameters, shape, pixel_mask)
        case "cuda":
            # By name: the algorithm knows nothing of the packages above it.
            finder: Finder = _of_gpu("finder").CudaFinder(parameters, shape, pixel_mask)
            return finder
        case "reference":
            return ReferenceFinder(parameters, shape, pixel_mask)


def chosen_backend(backend: Backend | str) -> Literal["cpu", "cuda", "reference"]:
    """The backend that `open_finder` opens when it is asked for `backend`.

    Raises:
        ValueError: no such backend.
    """
    match backend:
        case "auto":
            return "cuda" if _there_is_a_gpu() else "cpu"
        case "cpu" | "cuda" | "reference":
            return backend
    raise ValueError(f"no finder is called {backend!r}: choose 'auto', 'cpu', 'cuda' or 'reference'")


def _there_is_a_gpu() -> bool:
    """Whether one can be used. CUDA is not touched."""
    availability = _of_gpu("availability")
    try:
        availability.usable_gpus()
    except availability.NoGpuError:
        return False
    return True


def _of_gpu(module: str) -> Any:
    return import_module(f"gpu.{module}")
