"""Where a run's workers come from: a local cluster, a running scheduler, or what a YAML file says."""

from __future__ import annotations

import logging
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster, Security
from distributed.deploy.cluster import Cluster
from distributed.utils import get_ip_interface

from gpu.visible import VisibleGpu
from pipeline.errors import ClusterUnavailableError, reason_of
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.encryption import ExposedWarning, exposures
from pipeline.workers.gpu_requests import require_gpu_workers
from pipeline.workers.gpu_workers import gpu_cluster
from pipeline.workers.held_interrupts import interrupts_held_back
from pipeline.workers.kubernetes_pods import kubernetes_cluster
from pipeline.workers.patient_nanny import PatientNanny
from pipeline.workers.shared_settings import dask_settings
from pipeline.workers.slurm_jobs import slurm_cluster
from pipeline.workers.ssh_hosts import ssh_cluster

SECONDS_TO_ANSWER = 10


@contextmanager
def open_cluster(config: ClusterConfig) -> Iterator[Client]:
    """A client of the cluster that ``config`` describes; what was started for it ends with it.

    Nothing is registered as Dask's default client.

    Raises:
        ClusterUnavailableError: No scheduler answers, or what was to be started can't be.
    """
    if config.kind == "existing":
        assert config.scheduler is not None
        with dask_settings(), connect(config.scheduler, config.security) as client:
            yield client
        return
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker that has just been started imports the script that starts it, and came here again.
        raise SystemExit(1)
    with dask_settings(), _started(config) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _started(config: ClusterConfig) -> Iterator[Cluster]:
    if config.kind == "kubernetes":
        with kubernetes_cluster(config) as cluster:
            yield cluster
        return
    security = config.security
    for sentence in exposures(listening_host(config), config.dashboard_address, security is not None):
        warnings.warn(sentence, ExposedWarning, stacklevel=6)
    if config.kind == "slurm":
        with slurm_cluster(config, security) as cluster:
            yield cluster
    elif config.kind == "ssh":
        with ssh_cluster(config, security) as cluster:
            yield cluster
    else:
        gpus = require_gpu_workers(config)
        with _local_cluster(config, gpus, security) as cluster:
            yield cluster


def listening_host(config: ClusterConfig) -> str:
    """The address that the scheduler of a cluster that is started will listen on; "" is one of several."""
    if config.host is not None:
        return config.host
    if config.interface is not None and config.kind != "ssh":
        return str(get_ip_interface(config.interface))
    return "127.0.0.1" if config.is_local else ""


@contextmanager
def _local_cluster(config: ClusterConfig, gpus: tuple[VisibleGpu, ...], security: Security | None) -> Iterator[Cluster]:
    try:
        with interrupts_held_back():
            cluster = _of_gpus(config, gpus, security) if gpus else _of_cores(config, security)
    except RuntimeError as error:
        raise ClusterUnavailableError(
            f"{config.n_workers} worker{'s' * (config.n_workers != 1)} could not be started on this machine "
            f"({reason_of(error)}); in a script, code that starts workers has to stand under "
            '`if __name__ == "__main__":`, for they import the script'
        ) from error
    with cluster:
        if config.adaptive is not None:
            cluster.adapt(minimum=config.adaptive.minimum, maximum=config.adaptive.maximum)
        yield cluster


def _of_cores(config: ClusterConfig, security: Security | None) -> Cluster:
    return LocalCluster(
        n_workers=config.n_workers,
        threads_per_worker=config.threads_a_worker,
        processes=True,
        worker_class=PatientNanny,
        environment=config.worker_environment,
        host=None if config.host is None and config.interface is not None else listening_host(config),
        interface=config.interface,
        local_directory=config.local_directory,
        security=security,
        memory_limit=config.memory_limit,
        dashboard_address=config.dashboard_address or "127.0.0.1:0",
        scheduler_kwargs={"dashboard": config.dashboard_address is not None},
        silence_logs=logging.CRITICAL,
    )


def _of_gpus(config: ClusterConfig, gpus: tuple[VisibleGpu, ...], security: Security | None) -> Cluster:
    where = {
        "host": None if config.host is None and config.interface is not None else listening_host(config),
        "interface": config.interface,
    }
    return gpu_cluster(
        gpus,
        streams=config.threads_a_worker,
        scheduler_options={
            **where,
            "port": 0,
            "dashboard": config.dashboard_address is not None,
            "dashboard_address": config.dashboard_address or "127.0.0.1:0",
        },
        worker_options={
            **where,
            "local_directory": config.local_directory,
            "memory_limit": config.memory_limit,
            "dashboard": False,
            "environment": config.worker_environment,
        },
        security=security,
        silence_logs=logging.CRITICAL,
    )


def count_workers(client: Client) -> int:
    """Worker threads of a cluster at this moment: so many batches can be at work at once."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(worker["nthreads"] for worker in workers)


class _ClosedIfRefused(Client):
    """A client that is closed at once if its scheduler can't be reached.

    Dask leaves that to the garbage collector, whenever and in whatever thread it comes: in the one that the next client
    has just started and waits for, it waits for a lock which that client holds, for ever.
    """

    def __init__(self, address: str, **options: Any) -> None:
        begin: Callable[..., None] = super().__init__
        end: Callable[[], None] = self.__del__
        try:
            begin(address, **options)
        except BaseException:
            end()
            raise


def connect(address: str, security: Security | None) -> Client:
    """A client of a scheduler that runs.

    Raises:
        ClusterUnavailableError: None answers at that address, or it doesn't accept our certificate.
    """
    try:
        return _ClosedIfRefused(address, timeout=SECONDS_TO_ANSWER, security=security, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        if address.startswith("tls://"):
            raise ClusterUnavailableError(
                f"no Dask scheduler at {address} accepts us within {SECONDS_TO_ANSWER} s: check the address, and that "
                "--tls-ca-file, --tls-cert and --tls-key (or distributed.comm.tls in Dask's configuration) are "
                "certificates that it accepts"
            ) from error
        raise ClusterUnavailableError(
            f"no Dask scheduler answers at {address} within {SECONDS_TO_ANSWER} s: "
            "check the address (tcp://host:8786) and that `dask scheduler` runs there"
        ) from error
