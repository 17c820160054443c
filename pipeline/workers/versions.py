"""Whether a cluster's workers have the photonflow of this process, and what else differs."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from distributed import Client, LocalCluster

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_watch import ClusterWatch

logger = logging.getLogger(__name__)

# What a worker's result or its understanding of a task depends on. Dask adds its own.
PACKAGES = ("numba", "zarr", "numcodecs")
# Packages that differ without a word: they are not asked for their version, or never meet each other.
_UNREMARKED = ("pandas", "lz4", "toolz", "tornado", "msgpack", "cloudpickle")
SHOWN = 3


def require_photonflow(
    client: Client, watch: ClusterWatch | None = None, on_notice: Callable[[str], object] = logger.warning
) -> None:
    """Check that every worker has the photonflow of this process.

    Args:
        client: The cluster.
        watch: Waits for it.
        on_notice: Told which other versions differ, in a sentence.

    Raises:
        ClusterUnavailableError: There is no worker, or one doesn't answer, lacks photonflow or has another version.
    """
    watch = watch or ClusterWatch(client)
    watch.wait_for_worker()
    ours = metadata.version("photonflow")

    def versions() -> dict[str, str | BaseException]:
        # A function of the standard library: one of ours could not even be looked up where photonflow is missing.
        found: dict[str, str | BaseException] = client.run(metadata.version, "photonflow", on_error="return")
        return found

    there = watch.answer(versions, "tell the versions of photonflow on its workers")
    without = [address for address, theirs in there.items() if isinstance(theirs, BaseException)]
    if without:
        raise ClusterUnavailableError(
            f"{_workers(without, len(there))} no photonflow ({there[without[0]]}): install version {ours} where "
            f"{'it runs' if len(without) == 1 else 'they run'}"
        )
    others = {address: str(theirs) for address, theirs in there.items() if theirs != ours}
    if others:
        theirs = " and ".join(sorted(set(others.values())))
        raise ClusterUnavailableError(
            f"{_workers(list(others), len(there))} photonflow {theirs} and this is {ours}: install the same version "
            "on both"
        )
    if isinstance(client.cluster, LocalCluster):
        return
    asked: Any = watch.answer(lambda: client.get_versions(packages=list(PACKAGES)), "tell its versions of packages")
    for sentence in differences(asked):
        on_notice(sentence)


def differences(versions: Mapping[str, Any]) -> list[str]:
    """Where scheduler and workers have other versions than this process, each in a sentence.

    Args:
        versions: What `Client.get_versions` gives.
    """
    ours = _packages(versions["client"])
    elsewhere = {"the scheduler": versions.get("scheduler")} | {
        f"the worker at {address}": worker for address, worker in versions["workers"].items()
    }
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place, theirs in elsewhere.items():
        if not theirs:
            continue
        for package, version in _packages(theirs).items():
            # A scheduler runs no tasks, and so needs only what Dask needs.
            needed = package not in PACKAGES or place != "the scheduler"
            if needed and package in ours and version != ours[package]:
                found[package, version].append(place)
    return [
        f"{_places(places)} {package} {version or 'not installed'} and this is {ours[package] or 'not installed'}: "
        "should the run fail, install the same versions on both"
        for (package, version), places in found.items()
    ]


def _packages(versions: Mapping[str, Any]) -> dict[str, str]:
    packages = {name: str(version or "") for name, version in dict(versions["packages"]).items()}
    # Python's third number changes nothing that travels.
    packages["python"] = ".".join(packages["python"].split(".")[:2])
    return {name: version for name, version in packages.items() if name not in _UNREMARKED}


def _workers(addresses: list[str], of: int) -> str:
    if len(addresses) == 1:
        return f"the worker at {addresses[0]} has"
    return f"{len(addresses)} of {of} workers ({_some(addresses)}) have"


def _places(places: list[str]) -> str:
    if len(places) == 1:
        return f"{places[0]} has"
    return f"{_some(places)} have"


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
