"""A run from async code: in a thread of its own, and stopped in good order when it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from pipeline.batches.run_record import RunProgress
from pipeline.processing import process

if TYPE_CHECKING:
    import xarray as xr


async def process_async(
    archive: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    on_progress: Callable[[RunProgress], object] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Find the photon clusters of a frame archive without blocking the event loop.

    The run has a thread of its own. When the task that awaits it is cancelled, the run begins nothing new, gives what
    is at work a few seconds to end, and only then does the cancellation go on; ``resume=True`` takes the dataset up
    again.

    Args:
        archive, out: As :func:`pipeline.process` takes them.
        on_progress: Called in the event loop with a :class:`RunProgress` after each batch.
        **options: All else that :func:`pipeline.process` takes; ``client`` may be an asynchronous one.

    Returns:
        The dataset, as :func:`pipeline.process` returns it.

    Raises:
        asyncio.CancelledError: The task was cancelled, and the run has stopped.
        Exception: What :func:`pipeline.process` raises.
    """
    loop = asyncio.get_running_loop()
    cancelled = Event()
    asked: Callable[[], bool] = options.pop("should_stop", None) or (lambda: False)

    def tell(progress: RunProgress) -> None:
        if on_progress is not None and not cancelled.is_set():
            loop.call_soon_threadsafe(on_progress, progress)

    run = partial(process, archive, out, on_progress=tell, should_stop=lambda: cancelled.is_set() or asked(), **options)
    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        await _ended(running)
        raise


async def _ended(running: asyncio.Future[Any]) -> None:
    """Wait for a run to be over, however often that is cancelled, and however the run ends."""
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([running])
    if not running.cancelled():
        running.exception()  # seen, so that asyncio does not complain of it
