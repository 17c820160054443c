"""Word from the tasks of a run: small reports that go to the client with the news that their task is done.

A client learns from Dask that a task is done and then has to fetch its result, which takes the scheduler and both ends
about as much time as the task itself took them. Word travels with the news, as an event of Dask's. It may be missed (a
client that was cut off for a moment), so it only saves the way: whatever was told can be fetched, too.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
from typing import Any

from distributed import Client, get_worker

logger = logging.getLogger(__name__)


def topic(run_id: str) -> str:
    """Dask's topic under which the tasks of a run are told of."""
    return f"photonflow-word-{run_id}"


def tell(run_id: str, report: object) -> None:
    """In a task: tell the client what the task has to report."""
    worker = get_worker()
    key = str(worker.get_current_task())
    # From this thread the event is handed to the worker's loop before the news that the task is done.
    worker.log_event(topic(run_id), {"task": key, "report": pickle.dumps(report, pickle.HIGHEST_PROTOCOL)})


class Word:
    """What the tasks of a run have told, until somebody asks for it.

    Args:
        client: The cluster.
        run_id: The run.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._topic = topic(run_id)
        self._heard: dict[str, bytes] = {}

    def listen(self) -> None:
        """Begin to listen."""
        self._client.subscribe_topic(self._topic, self._hear)

    def stop(self) -> None:
        """Listen no more, and let the scheduler forget what it keeps of it."""
        self._client.unsubscribe_topic(self._topic)
        topic = self._topic

        # Nested, so that it goes to a scheduler whole, which need not have photonflow.
        def forget(dask_scheduler: Any) -> None:
            with contextlib.suppress(AttributeError):
                dask_scheduler._broker._topics.pop(topic, None)

        self._client.run_on_scheduler(forget)

    def take(self, task: str) -> Any:
        """What a task told, once; None if nothing was heard of it."""
        word = self._heard.pop(task, None)
        # From a worker of this run, which is trusted with pickles by every task's result.
        return None if word is None else pickle.loads(word)

    def _hear(self, event: tuple[float, Any]) -> None:
        try:
            self._heard[str(event[1]["task"])] = event[1]["report"]
        except (TypeError, KeyError):
            logger.info("word of a task that can't be read: %s", event)
