"""What a cluster configuration would start, and whether it could be: looked at without starting anything."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed.utils import get_ip_interface

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.cluster_watch import ClusterWatch, Patience
from pipeline.workers.clusters import connect, listening_host
from pipeline.workers.encryption import exposures
from pipeline.workers.gpu_requests import require_gpu_workers
from pipeline.workers.kubernetes_check import check_kubernetes
from pipeline.workers.memory import bytes_in_words, memory_there_is
from pipeline.workers.shared_settings import dask_settings
from pipeline.workers.slurm_check import check_slurm
from pipeline.workers.ssh_check import check_ssh
from pipeline.workers.versions import require_photonflow

SECONDS_FOR_WORKERS = 10.0


@dataclass(frozen=True)
class Check:
    """One thing that a cluster needs.

    Args:
        what: What was looked at.
        found: What was found, in words.
        ok: Whether that will do.
    """

    what: str
    found: str
    ok: bool = True


def check_cluster(config: ClusterConfig) -> Iterator[Check]:
    """Look at what ``config`` needs, one thing after the other; nothing is started.

    Machines are logged in to, and schedulers asked, but no job, pod or worker begins.
    """
    yield from _tried("GPUs", lambda: require_gpu_workers(config), "none asked for")
    if config.kind != "existing":
        yield from _listening(config)
    if config.local_directory is not None and config.is_local:
        yield _folder("local_directory", config.local_directory)
    if config.kind == "slurm":
        checks: Iterator[tuple[str, str, bool]] = check_slurm(config)
    elif config.kind == "ssh":
        checks = check_ssh(config)
    elif config.kind == "kubernetes":
        checks = check_kubernetes(config)
    elif config.kind == "existing":
        checks = _existing(config)
    else:
        checks = _local(config)
    for what, found, ok in checks:
        yield Check(what, found, ok)


def _tried(what: str, call: Callable[[], object], fine: str) -> Iterator[Check]:
    try:
        call()
    except (ValueError, ClusterUnavailableError) as error:
        yield Check(what, str(error), ok=False)
    else:
        yield Check(what, fine)


def _listening(config: ClusterConfig) -> Iterator[Check]:
    if config.interface is not None and config.kind != "ssh":
        try:
            yield Check("interface", f"{config.interface} has {get_ip_interface(config.interface)} here")
        except ValueError as error:
            yield Check("interface", f"{' '.join(str(error).split())}: give one of this machine's", ok=False)
            return
    if config.kind == "kubernetes":
        return
    encrypted = "encrypted" if config.tls or config.tls_ca_file else "not encrypted"
    yield from _tried("connections", lambda: config.security, encrypted)
    host = "" if config.kind == "ssh" and config.host is None else listening_host(config)
    for sentence in exposures(host, config.dashboard_address, bool(config.tls or config.tls_ca_file)):
        # What a user may want: said, and no hindrance.
        yield Check("reachable", sentence)


def _folder(what: str, name: str) -> Check:
    folder = Path(name).absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return Check(what, f"{existing} can't be written to", ok=False)
    return Check(what, f"{folder}{'' if folder.exists() else ', to be made'}")


def _local(config: ClusterConfig) -> Iterator[tuple[str, str, bool]]:
    there_is = memory_there_is()
    threads = config.n_workers * config.threads_a_worker
    yield "cores", f"{threads} wanted, {CPU_COUNT} there", True
    if config.memory_limit != "auto":
        wanted = config.n_workers * int(parse_bytes(config.memory_limit))
        yield (
            "memory",
            f"{bytes_in_words(wanted)} wanted, {there_is.limited_by} has {bytes_in_words(there_is.total)}",
            wanted <= there_is.total,
        )
    if config.dashboard_address is not None:
        yield _port(config.dashboard_address)


def _port(address: str) -> tuple[str, str, bool]:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_server((host.strip("[]"), int(port))):
            return "dashboard", f"{address} is free", True
    except (OSError, ValueError, OverflowError) as error:
        return "dashboard", f"{address}: {error}", False


def _existing(config: ClusterConfig) -> Iterator[tuple[str, str, bool]]:
    assert config.scheduler is not None
    try:
        with dask_settings(), connect(config.scheduler, config.security) as client:
            yield "scheduler", f"{config.scheduler} answers", True
            watch = ClusterWatch(client, patience=Patience(SECONDS_FOR_WORKERS))
            notices: list[str] = []
            try:
                require_photonflow(client, watch, on_notice=notices.append)
            except ClusterUnavailableError as error:
                yield "workers", str(error), False
                return
            yield "workers", f"{len(watch.workers)}, with {watch.n_threads} threads and this photonflow", True
            for notice in notices:
                yield "versions", notice, True
    except (ClusterUnavailableError, ValueError) as error:
        yield "scheduler", str(error), False
