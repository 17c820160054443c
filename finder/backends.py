"""Which finder to use."""

from __future__ import annotations

from typing import Literal

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
        backend: "auto" (the fastest there is), "cpu", "cuda" or "reference".
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
        case "reference":
            return ReferenceFinder(parameters, shape, pixel_mask)


def chosen_backend(backend: Backend | str) -> Literal["cpu", "reference"]:
    """The backend that `open_finder` opens when it is asked for `backend`.

    Raises:
        ValueError: no such backend.
        RuntimeError: the backend is not available here.
    """
    match backend:
        case "auto" | "cpu":
            return "cpu"
        case "reference":
            return "reference"
        case "cuda":
            raise RuntimeError("this version has no CUDA finder yet: use the backend 'cpu'")
    raise ValueError(f"no finder is called {backend!r}: choose 'auto', 'cpu', 'cuda' or 'reference'")
