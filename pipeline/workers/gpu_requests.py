"""Whether workers with GPUs of this machine can be started."""

from __future__ import annotations

from gpu.availability import NoGpuError, enough_gpus
from gpu.visible import VisibleGpu
from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig


def require_gpu_workers(config: ClusterConfig) -> tuple[VisibleGpu, ...]:
    """The GPUs of this machine that a configuration asks for; none where it asks for none.

    Raises:
        ClusterUnavailableError: There are not so many that can be used, and why.
    """
    if config.kind != "local-gpu":
        return ()
    try:
        return enough_gpus(config.gpus)
    except NoGpuError as error:
        raise ClusterUnavailableError(str(error)) from error
