"""The memory of a worker's GPU, which goes to the scheduler with the worker's heartbeats."""

from __future__ import annotations

from typing import Any

from gpu.device import Device
from pipeline.workers.worker_backends import first_gpu

GPU_METRIC = "photonflow-gpu-"
"""What a run's metric is called on a worker, before the run's id."""


class GpuMemory:
    """Called with a worker, says what its GPU is called and how full its memory is.

    Args:
        device: The GPU.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._name = first_gpu()

    def __call__(self, worker: Any) -> dict[str, Any]:
        """The GPU's name, and bytes of its memory: in use, and in all."""
        memory = self._device.memory()
        return {"device": self._name or "GPU", "used": memory.total - memory.free, "total": memory.total}
