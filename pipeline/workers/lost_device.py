"""A worker whose GPU answers to nothing any more makes room for another.

After an error such as an illegal address every CUDA call of the process fails, and only a new process can use the GPU
again. So the worker takes no more work, tells why its batch failed, and ends; its nanny starts another in its place,
and Dask tries the batch again, elsewhere if there is another worker. A batch that fails so in all its tries ends the
run with what CUDA said.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Reschedule, Status, get_worker

from gpu.device import LostDeviceError

logger = logging.getLogger(__name__)

# For the task's error to be made into a message; the worker takes no work meanwhile.
SECONDS_TO_TELL = 30.0
SECONDS_BETWEEN_LOOKS = 0.05
# What other threads of the worker have at hand fails by itself, for their GPU is the same.
SECONDS_TO_CLOSE = 2.0
_MARK = "photonflow_lost_its_device"


@contextmanager
def ending_a_worker_without_device() -> Iterator[None]:
    """Run a task that uses a GPU; if that is lost, let the worker end.

    Raises:
        LostDeviceError: The GPU was lost with this task, which counts as one of its tries.
        Reschedule: It had been lost before: the task is to be done by another worker, and this was no try.
    """
    worker = get_worker()
    if getattr(worker, _MARK, False):
        raise Reschedule
    try:
        yield
    except LostDeviceError as error:
        logger.warning("the worker at %s ends, for it has lost its GPU: %s", worker.address, error)
        setattr(worker, _MARK, True)
        # Queued before the task's own end is, so the scheduler hears first that no work is wanted here.
        worker.loop.add_callback(_leave, worker, worker.get_current_task())
        raise


async def _leave(worker: Any, task: str) -> None:
    # Dask's memory watch would find that nothing is wrong with the worker, and let it go on.
    worker.memory_manager.memory_pause_fraction = False
    if worker.status == Status.running:
        worker.status = Status.paused
    deadline = time.monotonic() + SECONDS_TO_TELL
    while _at_work_on(worker, task) and time.monotonic() < deadline:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    await worker.close(timeout=SECONDS_TO_CLOSE, executor_wait=False, nanny=False, reason="photonflow-lost-device")


def _at_work_on(worker: Any, task: str) -> bool:
    known = worker.state.tasks.get(task)
    return known is not None and known in worker.state.executing
