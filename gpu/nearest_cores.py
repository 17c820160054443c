"""The processor cores that lie nearest to a GPU: on its NUMA node, behind the same root of the PCI bus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu.visible import VisibleGpu


@dataclass(frozen=True)
class NearestCores:
    """Where the process that uses a GPU should run.

    Args:
        node: The GPU's NUMA node; None where the machine has but one, or does not say.
        cores: Cores of that node that this process may use; all of its cores where the node is not known.
        sharers: GPUs in use that these cores serve.
    """

    node: int | None
    cores: frozenset[int]
    sharers: int

    @property
    def decode_threads(self) -> int:
        """Threads that decode frames for each of the GPUs: their share of the cores."""
        return max(1, len(self.cores) // self.sharers)


def nearest_cores(
    gpus: Sequence[VisibleGpu], allowed: frozenset[int] | None = None, root: Path = Path("/")
) -> list[NearestCores]:
    """For each GPU in use, the cores for its worker.

    Args:
        gpus: Those that are to be used together.
        allowed: Cores that this process may use; None asks the system.
        root: Where ``/sys`` is looked for.
    """
    allowed = _allowed() if allowed is None else allowed
    places = [_place(gpu, root) for gpu in gpus]
    of_nodes = [(node, cores & allowed) if cores & allowed else (None, allowed) for node, cores in places]
    sharers = Counter(node for node, _ in of_nodes)
    return [NearestCores(node, cores, sharers[node]) for node, cores in of_nodes]


def _place(gpu: VisibleGpu, root: Path) -> tuple[int | None, frozenset[int]]:
    if gpu.card is None:
        return None, frozenset()
    folder = root / "sys/bus/pci/devices" / gpu.card.pci_address
    try:
        node = int((folder / "numa_node").read_text())
        cores = _listed((folder / "local_cpulist").read_text())
    except (OSError, ValueError):
        return None, frozenset()
    return (node, cores) if node >= 0 else (None, frozenset())


def _listed(text: str) -> frozenset[int]:
    """The cores in a list as Linux writes it: ``0-15,32-47``."""
    cores: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return frozenset(cores)


def _allowed() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
