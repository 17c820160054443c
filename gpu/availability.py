"""Whether GPUs can be used here, and if not, why and what to do: one sentence each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from gpu.nvml import Driver, NoDriverError, ask_driver
from gpu.visible import VARIABLE, VisibleGpu, visible_gpus

# CuPy's packages by the CUDA that they are for.
_CUPY = {12: "cupy-cuda12x", 13: "cupy-cuda13x"}


class NoGpuError(RuntimeError):
    """GPUs were asked for, or looked for, and can't be had; the message says why."""


def usable_gpus(environment: Mapping[str, str] = os.environ) -> tuple[VisibleGpu, ...]:
    """The GPUs that a run may use; at least one. CUDA is not touched.

    Raises:
        NoGpuError: There is none, or what drives them is missing or too old.
    """
    try:
        driver = ask_driver()
    except NoDriverError as error:
        raise NoGpuError(str(error)) from error
    gpus = visible_gpus(driver.gpus, environment)
    if not gpus:
        if driver.gpus:
            raise NoGpuError(
                f"{VARIABLE}={environment.get(VARIABLE, '')} leaves none of this machine's {_gpus(len(driver.gpus))}"
            )
        raise NoGpuError("the NVIDIA driver finds no GPU on this machine")
    if find_spec("cupy") is None:
        raise NoGpuError(missing_cupy(driver))
    if (major := _cupy_major()) is not None and driver.cuda < (major, 0):
        raise NoGpuError(driver_too_old_for(major, f"driver {driver.version} is for CUDA {_dotted(driver.cuda)}"))
    return gpus


def enough_gpus(wanted: int | None, environment: Mapping[str, str] = os.environ) -> tuple[VisibleGpu, ...]:
    """Exactly as many GPUs as wanted; None is all that are usable.

    Raises:
        NoGpuError: There are fewer, or none can be used.
        ValueError: Less than one is wanted.
    """
    if wanted is not None and wanted < 1:
        raise ValueError(f"{wanted} GPUs were asked for, and it takes at least 1: for none use --cpus")
    try:
        gpus = usable_gpus(environment)
    except NoGpuError as error:
        if wanted is None:
            raise
        raise NoGpuError(
            f"{_asked(wanted)}, and none can be used: {error}; leave out --gpus to use CPU cores, or say how many with "
            "--cpus"
        ) from error
    if wanted is not None and len(gpus) < wanted:
        listed = environment.get(VARIABLE)
        of_list = "" if listed is None else f" ({VARIABLE}={listed})"
        raise NoGpuError(
            f"{_asked(wanted)}, and there {'is' if len(gpus) == 1 else 'are'} {len(gpus)}{of_list}: "
            f"use --gpus {len(gpus)}, or leave the option out to use all there are"
        )
    return gpus[:wanted]


def missing_cupy(driver: Driver | None = None) -> str:
    """What to do where CuPy is not installed."""
    extra = "cuda12" if driver is None or driver.cuda < (13, 0) else "cuda13"
    return f"the GPU is driven through CuPy, which is not installed: pip install 'photonflow[{extra}]'"


def driver_too_old_for(major: int | None, reason: str) -> str:
    """What to do where the driver is older than the toolkit.

    Args:
        major: The CUDA that CuPy and the kernels were made for; None if it isn't known.
        reason: What says so.
    """
    cuda = "the CUDA that photonflow uses" if major is None else f"CUDA {major}, for which CuPy is installed"
    older = "" if major is None or major <= min(_CUPY) else f", or pip install 'photonflow[cuda{major - 1}]'"
    return f"the NVIDIA driver is too old for {cuda} ({reason}): install a newer driver{older}"


def _cupy_major() -> int | None:
    """The CUDA that the installed CuPy is for; None where its package doesn't say."""
    spec = find_spec("cupy")
    if spec is None or spec.origin is None:
        return None
    site = str(Path(spec.origin).parents[1])
    return next((major for major, package in _CUPY.items() if any(distributions(name=package, path=[site]))), None)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def _asked(count: int) -> str:
    return f"{_gpus(count)} {'was' if count == 1 else 'were'} asked for"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
