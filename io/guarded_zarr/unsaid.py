"""Warnings of a library that say nothing to a user of ours, left unsaid."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# The filters of warnings belong to the process: of two threads that set and restore them at the same time, one
# would warn of what it had silenced, and what the other silenced might stay silent for good.
_one_at_a_time = threading.RLock()


@contextmanager
def unsaid(category: type[Warning]) -> Iterator[None]:
    """Leave warnings of this kind unsaid in the block; it is held by one thread at a time."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
