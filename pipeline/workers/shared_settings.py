"""Settings of Dask that belong to the whole process: made while a cluster of ours needs them, then taken back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dask

DASK_SETTINGS = {
    # Dask's cluster looks 15 s after the loss of a worker, and ends for good what would have started it anew; on a busy
    # machine Python and the finder take longer than that to load.
    "distributed.deploy.lost-worker-timeout": "1 hour",
    # Dask's own look at GPUs fails, and the worker with it, on lists that CUDA takes: -1, the beginning of a UUID.
    "distributed.diagnostics.nvml": False,
}
# What fails reaches the run as an exception, and its user as a sentence; these would say it with tracebacks, or say
# each connection.
QUIET_HANDLERS_OF = ("distributed", "bokeh")
QUIET_LOGGERS = ("distributed.client", "asyncssh", "kr8s")

_lock = threading.Lock()
_holders = 0
_made = ExitStack()


@contextmanager
def dask_settings() -> Iterator[None]:
    """Hold the settings; the first of several holders makes them, and the last one takes them back.

    Runs side by side in one process that each made and took back their own would leave those of the first behind: the
    second finds the first one's settings, and puts them back.
    """
    global _holders
    with _lock:
        if _holders == 0:
            _make()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _made.close()


def _make() -> None:
    with ExitStack() as made:
        made.enter_context(dask.config.set(DASK_SETTINGS))
        handlers = [handler for name in QUIET_HANDLERS_OF for handler in logging.getLogger(name).handlers]
        quieted: list[logging.Handler | logging.Logger] = [logging.getLogger(name) for name in QUIET_LOGGERS]
        quieted += [handler for handler in handlers if isinstance(handler, logging.StreamHandler)]
        for quiet in quieted:
            made.callback(quiet.setLevel, quiet.level)
            quiet.setLevel(logging.CRITICAL)
        _made.push(made.pop_all())
