"""Which GPUs this process was given, and how to hand one on to another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu.nvml import Gpu

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU that may be used.

    Args:
        entry: What ``CUDA_VISIBLE_DEVICES`` of a process has to be, for it to have this one alone.
        card: What the driver says of it; None where that can't be told.
    """

    entry: str
    card: Gpu | None


def visible_gpus(installed: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[VisibleGpu, ...]:
    """The GPUs that a process with this environment may use, in its order.

    A list that was inherited (of a batch system, a container or a user) is kept: its entries are handed on as they
    are written, numbers, UUIDs or their beginnings, and MIG instances. As in CUDA, it ends at the first entry that is
    no GPU. Without a list all are visible, and told by UUID, which means the same card in any order.

    Args:
        installed: All GPUs, as the driver lists them.
        environment: The process's variables.
    """
    listed = environment.get(VARIABLE)
    if listed is None:
        return tuple(VisibleGpu(gpu.uuid, gpu) for gpu in installed)
    found = []
    for entry in (part.strip() for part in listed.split(",")):
        if entry.isdigit():
            cards = {gpu.index: gpu for gpu in installed}
            if int(entry) not in cards:
                break
            found.append(VisibleGpu(entry, cards[int(entry)] if _numbered_by_bus(installed, environment) else None))
        elif entry.startswith(("GPU-", "MIG-")):
            named = [gpu for gpu in installed if gpu.uuid.startswith(entry)]
            old_style = [gpu for gpu in installed if entry.startswith(f"MIG-{gpu.uuid}/")]
            if len(named) > 1 or (not named and entry.startswith("GPU-")):
                break
            found.append(VisibleGpu(entry, next(iter(named or old_style), None)))
        else:
            break
    return tuple(found)


def _numbered_by_bus(installed: Sequence[Gpu], environment: Mapping[str, str]) -> bool:
    """Whether CUDA numbers the cards as the driver does: unless told so, it has the fastest first."""
    alike = len({gpu.name for gpu in installed}) == 1
    return alike or environment.get(ORDER) == "PCI_BUS_ID"
