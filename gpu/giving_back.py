"""Giving CUDA's memory and handles back, which may happen at any moment and in any thread, and never fails."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

_of_thread = threading.local()


@contextlib.contextmanager
def nothing_given_back() -> Iterator[None]:
    """Let what this thread would give back wait until the end of the block.

    Freeing memory spoils the capture of a graph by the same thread, and the interpreter may find garbage, anybody's,
    at any moment of it.
    """
    late: list[Callable[[], object]] = []
    _of_thread.late = late
    try:
        yield
    finally:
        _of_thread.late = None
        for call in late:
            quietly(call)


def give_back(call: Callable[[], object]) -> None:
    """Give something back: now, or when this thread has ended its capture."""
    late = getattr(_of_thread, "late", None)
    if late is None:
        quietly(call)
    else:
        late.append(call)


def quietly(call: Callable[[], object]) -> None:
    """Call; of a device that is lost, nothing can be given back, and that is told elsewhere."""
    with contextlib.suppress(RuntimeError):
        call()
