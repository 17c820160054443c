"""Whether workers with GPUs can be started."""

from __future__ import annotations

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig


def require_gpu_workers(config: ClusterConfig) -> None:
    """Refuse a configuration that asks for GPUs where there is no finder that uses them.

    Raises:
        ClusterUnavailableError: It does.
    """
    if config.gpus is not None or config.kind == "local-gpu":
        wanted = f"gpus: {config.gpus}" if config.gpus is not None else "kind: local-gpu"
        raise ClusterUnavailableError(
            f"the cluster configuration says {wanted}, and this version of photonflow finds clusters on CPUs only: "
            "give workers: and another kind"
        )
