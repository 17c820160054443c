"""GPUs or CPU cores: what a run is to use where its user leaves that open, and the reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu.availability import NoGpuError, enough_gpus
from gpu.visible import VisibleGpu
from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig


@dataclass(frozen=True)
class DeviceChoice:
    """What a run uses.

    Args:
        config: Its workers.
        backend: The finder that they are to use; ``auto`` leaves it to each of them.
        reason: What is used and why, in a few words; empty where it is just what was asked for.
    """

    config: ClusterConfig
    backend: str
    reason: str = ""


def choose_device(config: ClusterConfig | None, backend: str = "auto", gpus: int | None = None) -> DeviceChoice:
    """Decide between GPUs and cores.

    Args:
        config: Workers that were asked for; None where that was left open.
        backend: The finder that was asked for.
        gpus: So many GPUs were asked for.

    Raises:
        ClusterUnavailableError: GPUs were asked for and can't be had; the message says why.
        ValueError: What was asked for excludes itself.
    """
    if gpus is not None and backend not in ("auto", "cuda"):
        raise ValueError(f"the {backend} finder uses no GPU, and {gpus} were asked for: leave one of them out")
    if gpus is not None or (backend == "cuda" and config is None):
        return _all_or_so_many(config or ClusterConfig(), gpus)
    if config is not None:
        if config.kind == "local-gpu":
            return _all_or_so_many(config, config.gpus)
        return DeviceChoice(config, "cpu" if backend == "auto" and config.kind == "local-cpu" else backend)
    if backend != "auto":
        return DeviceChoice(ClusterConfig(), backend)
    try:
        found = enough_gpus(None)
    except NoGpuError as error:
        return DeviceChoice(ClusterConfig(), "cpu", f"on CPU cores: {error}")
    chosen = replace(ClusterConfig(), kind="local-gpu", gpus=len(found))
    return DeviceChoice(chosen, "cuda", f"on {named(found)}, all that there are")


def _all_or_so_many(config: ClusterConfig, wanted: int | None) -> DeviceChoice:
    try:
        found = enough_gpus(wanted)
    except NoGpuError as error:
        raise ClusterUnavailableError(str(error)) from error
    return DeviceChoice(replace(config, kind="local-gpu", gpus=len(found)), "cuda", f"on {named(found)}")


def named(gpus: Sequence[VisibleGpu]) -> str:
    """The GPUs in words: how many, and which."""
    names = sorted({gpu.card.name for gpu in gpus if gpu.card is not None})
    which = f" ({', '.join(names)})" if names else ""
    return f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}{which}"
