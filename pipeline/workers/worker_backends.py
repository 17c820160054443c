"""Which finder the workers of a cluster that was there before can use, and which GPUs workers have."""

from __future__ import annotations

import os

from distributed import Client

from finder import chosen_backend
from gpu.nvml import NoDriverError, ask_driver
from gpu.visible import visible_gpus
from pipeline.workers.cluster_watch import ClusterWatch, despite_deaths


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


def gpus_of_workers(client: Client, watch: ClusterWatch) -> str:
    """What the GPUs that workers use are called, each name once; "" where no driver tells."""

    def names() -> dict[str, str | BaseException]:
        return despite_deaths(lambda: client.run(first_gpu, on_error="return"))

    answers = watch.answer(names, "tell which GPUs its workers have").values()
    return ", ".join(sorted({answer for answer in answers if isinstance(answer, str) and answer}))


def first_gpu() -> str:
    """The name of the GPU that this process uses, the first that it sees; "" if it is not told. CUDA is not touched."""
    try:
        gpus = visible_gpus(ask_driver().gpus, os.environ)
    except NoDriverError:
        return ""
    return gpus[0].card.name if gpus and gpus[0].card is not None else ""
