"""Workers on other machines, started by SSH through Dask's ``SSHCluster``."""

from __future__ import annotations

import importlib
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any, cast

from distributed import Security
from distributed.deploy.spec import SpecCluster

from pipeline.errors import ClusterUnavailableError, reason_of
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.held_interrupts import interrupts_held_back


@contextmanager
def ssh_cluster(config: ClusterConfig, security: Security | None) -> Iterator[SpecCluster]:
    """Scheduler and workers on the machines that ``config`` names; they end with this process.

    Raises:
        ClusterUnavailableError: asyncssh is not here, or one of the machines can't be logged in to or starts nothing.
    """
    require_asyncssh()
    from distributed import SSHCluster

    hosts = ssh_hosts(config)
    try:
        with interrupts_held_back():
            cluster = SSHCluster(
                hosts,
                connect_options=connect_options(config),
                worker_options=_worker_options(config),
                scheduler_options=_scheduler_options(config),
                remote_python=[
                    remote_python(config),
                    *(remote_python(config, hosts[1:k].count(hosts[k])) for k in range(1, len(hosts))),
                ],
                silence_logs=logging.CRITICAL,
                # Dask's hints know of texts only.
                **cast("dict[str, Any]", {} if security is None else {"security": security}),
            )
    except Exception as error:
        # asyncssh has kinds of its own, and what Dask raises is a plain Exception.
        raise ClusterUnavailableError(
            f"workers can't be started by SSH on {', '.join(dict.fromkeys(hosts))}: {reason_of(error)}; "
            "`photonflow cluster check` tries each of them"
        ) from error
    with cluster:
        yield cluster


def ssh_hosts(config: ClusterConfig) -> list[str]:
    """The machine of the scheduler, and that of each worker."""
    assert config.ssh is not None
    return [config.ssh.scheduler or config.ssh.hosts[0], *islice(cycle(config.ssh.hosts), config.n_workers)]


def connect_options(config: ClusterConfig) -> dict[str, Any]:
    """What asyncssh is told; what is left out it takes from SSH's own configuration."""
    ssh = config.ssh
    assert ssh is not None
    options = {"username": ssh.user, "port": ssh.port, "known_hosts": ssh.known_hosts}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if ssh.key is not None:
        given["client_keys"] = [ssh.key]
    return given


def remote_python(config: ClusterConfig, place: int = 0) -> str:
    """How Python is started on those machines: with the workers' environment, and to end with its connection.

    Args:
        config: The cluster.
        place: How many workers its machine has already; where each has a GPU, it is given that one.
    """
    assert config.ssh is not None
    gpu = {"CUDA_VISIBLE_DEVICES": str(place)} if config.gpus is not None else {}
    environment = [f"{name}={shlex.quote(value)}" for name, value in (config.worker_environment | gpu).items()]
    python = shlex.quote(config.ssh.python or sys.executable)
    return " ".join(["env", *environment, python, "-m", "pipeline.workers.remote_process"])


def require_asyncssh() -> None:
    """Refuse where asyncssh is not installed.

    Raises:
        ClusterUnavailableError: It isn't.
    """
    try:
        importlib.import_module("asyncssh")
    except ImportError as error:
        raise ClusterUnavailableError(f"kind 'ssh' needs asyncssh: pip install 'photonflow[ssh]' ({error})") from error


def _worker_options(config: ClusterConfig) -> dict[str, Any]:
    options: dict[str, Any] = {
        "nthreads": config.threads_a_worker,
        "memory_limit": config.memory_limit,
        "death_timeout": "60s",
    }
    optional = {"interface": config.interface, "local_directory": config.local_directory}
    return options | {name: value for name, value in optional.items() if value is not None} | _certificates(config)


def _scheduler_options(config: ClusterConfig) -> dict[str, Any]:
    options: dict[str, Any] = {
        "port": 0,
        "dashboard": config.dashboard_address is not None,
        "dashboard_address": config.dashboard_address or "127.0.0.1:0",
    }
    # An address says more than an interface, and Dask takes one of them.
    optional = {"interface": config.interface if config.host is None else None, "host": config.host}
    return options | {name: value for name, value in optional.items() if value is not None} | _certificates(config)


def _certificates(config: ClusterConfig) -> dict[str, Any]:
    if config.tls_ca_file is None:
        return {}
    files: dict[str, Any] = {"require_encryption": True, "tls_ca_file": config.tls_ca_file}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": config.tls_cert, f"tls_{role}_key": config.tls_key}
    return {"protocol": "tls://", "security": files}
