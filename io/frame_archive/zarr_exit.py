"""Lets zarr's thread end in peace when Python exits.

At exit zarr 3.1 gives its event loop 0.2 s to stop and then closes it by force, which on a busy machine fails with a
traceback on the user's screen, after all work is done and written.
"""

from __future__ import annotations

import atexit

from zarr.core import sync

_PATIENCE_SECONDS = 10


def end_zarr_thread_at_exit() -> None:
    """Stop zarr's event loop at exit and wait for it, before zarr does so with less patience."""
    # Handlers run last in, first out, and zarr's is in since its import.
    atexit.register(_stop)


def _stop() -> None:
    loop, thread = sync.loop[0], sync.iothread[0]
    if loop is not None and thread is not None and loop.is_running():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_SECONDS)
