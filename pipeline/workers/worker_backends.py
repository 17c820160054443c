"""Which finder the workers of a cluster that was there before can use."""

from __future__ import annotations

from distributed import Client

from finder import chosen_backend
from pipeline.workers.cluster_watch import ClusterWatch


def backend_of_workers(client: Client, watch: ClusterWatch) -> str:
    """``cuda`` if every worker has a GPU that it can use, ``cpu`` if none has; else ``auto``: each takes what it has.

    Whatever they use, the clusters are the same.
    """

    def backends() -> dict[str, str | BaseException]:
        found: dict[str, str | BaseException] = client.run(chosen_backend, "auto", on_error="return")
        return found

    answers = watch.answer(backends, "tell whether its workers have GPUs").values()
    chosen = {answer for answer in answers if isinstance(answer, str)}
    return chosen.pop() if len(chosen) == 1 else "auto"
