"""Starting threads and processes that a Ctrl-C doesn't reach."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Start threads and processes that a Ctrl-C doesn't reach: they inherit what is held back.

    A terminal sends it to all processes; only this one is to act on it, and it ends the others in good order. A Ctrl-C
    in the meantime arrives afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Where this starts a process of its own it lets interrupts through again, so that has to happen first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
