"""What workers compile, which takes seconds before a run's first batch: told to whoever waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Worker

from finder.compiling_notices import compiling_told_to


@contextmanager
def compiling_reported(worker: Worker, run_id: str) -> Iterator[None]:
    """Within, in this thread, what is compiled is reported to the client of a run."""
    with compiling_told_to(lambda words: worker.log_event(_topic(run_id), words)):
        yield


class CompilingNews:
    """Hears what the workers of a run compile.

    Args:
        client: Their cluster.
        run_id: The run.
        on_words: Told in a few words; once, however many workers say the same.
    """

    def __init__(self, client: Client, run_id: str, on_words: Callable[[str], object]) -> None:
        self._client, self._topic, self._on_words = client, _topic(run_id), on_words
        self._heard: set[str] = set()

    def listen(self) -> None:
        """Begin to listen."""
        self._client.subscribe_topic(self._topic, self._hear)

    def stop(self) -> None:
        """Listen no more."""
        self._client.unsubscribe_topic(self._topic)

    def _hear(self, event: tuple[float, Any]) -> None:
        words = str(event[1])
        if words not in self._heard:
            self._heard.add(words)
            self._on_words(words)


def _topic(run_id: str) -> str:
    return f"photonflow-compiling-{run_id}"
