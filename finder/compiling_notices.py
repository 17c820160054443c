"""Who is told that something is being compiled, which takes seconds in which nothing else seems to happen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

logger = logging.getLogger(__name__)

# What takes longer is worth a line that is shown even where no log was asked for: in a notebook, say.
SECONDS_UNREMARKED = 5

Listener = Callable[[str], object]

_listener: ContextVar[Listener | None] = ContextVar("compiling", default=None)


@contextmanager
def compiling_told_to(listener: Listener) -> Iterator[None]:
    """Within, in this thread or coroutine, `listener` is told in a few words what is being compiled, not the log."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(words: str, seconds: int) -> None:
    """Say that something begins which takes about so many seconds."""
    listener = _listener.get()
    if listener is not None:
        listener(words)
    else:
        logger.log(logging.WARNING if seconds > SECONDS_UNREMARKED else logging.INFO, words)
