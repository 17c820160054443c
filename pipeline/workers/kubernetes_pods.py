"""Workers in Kubernetes pods, which the Dask operator starts: the resources that it is given, and their client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dask.utils import parse_bytes
from distributed.deploy.cluster import Cluster

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig

API_VERSION = "kubernetes.dask.org/v1"
# Scheduler and client share nothing but messages; a million batches take less.
SCHEDULER_RESOURCES = {"cpu": "1", "memory": "4Gi"}
NANNY_BYTES = 256 << 20
SECONDS_TO_START = 300


@contextmanager
def kubernetes_cluster(config: ClusterConfig) -> Iterator[Cluster]:
    """The pods that ``config`` describes; those of a cluster of that name that runs already are used and stay.

    Raises:
        ClusterUnavailableError: dask-kubernetes is not here, or no Kubernetes with the Dask operator answers.
    """
    library = dask_kubernetes()
    pods = config.kubernetes
    assert pods is not None
    try:
        if _runs(config):
            cluster = library.KubeCluster.from_name(pods.name, namespace=pods.namespace, quiet=True)
        else:
            cluster = library.KubeCluster(
                custom_cluster_spec=dask_cluster(config),
                namespace=pods.namespace,
                resource_timeout=SECONDS_TO_START,
                quiet=True,
            )
    except Exception as error:
        # Kubernetes' client has kinds of its own for each way to fail.
        raise ClusterUnavailableError(
            f"no Kubernetes with the Dask operator answers: {' '.join(str(error).split()) or type(error).__name__}; "
            "`photonflow cluster check` says what it needs"
        ) from error
    with cluster:
        if config.adaptive is not None:
            cluster.adapt(minimum=config.adaptive.minimum, maximum=config.adaptive.maximum)
        yield cluster


def dask_cluster(config: ClusterConfig) -> dict[str, Any]:
    """The resource ``DaskCluster``: a scheduler, and the workers that ``config`` describes."""
    pods = config.kubernetes
    assert pods is not None
    scheduler = {
        "name": "scheduler",
        "image": pods.image,
        "args": ["dask", "scheduler", "--host", "0.0.0.0", "--dashboard-address", ":8787"],
        "ports": [
            {"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"},
            {"name": "http-dashboard", "containerPort": 8787, "protocol": "TCP"},
        ],
        "resources": {"requests": SCHEDULER_RESOURCES, "limits": {"memory": SCHEDULER_RESOURCES["memory"]}},
        "readinessProbe": {"httpGet": {"port": "http-dashboard", "path": "/health"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"port": "http-dashboard", "path": "/health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
    }
    selector = {"dask.org/cluster-name": pods.name, "dask.org/component": "scheduler"}
    ports = [
        {"name": name, "protocol": "TCP", "port": port, "targetPort": name}
        for name, port in (("tcp-comm", 8786), ("http-dashboard", 8787))
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "DaskCluster",
        "metadata": {"name": pods.name, "namespace": pods.namespace},
        "spec": {
            "scheduler": {
                "spec": _pod(config, scheduler, of_worker=False),
                "service": {"type": "ClusterIP", "selector": selector, "ports": ports},
            },
            "worker": {"replicas": config.n_workers, "spec": _pod(config, _worker(config), of_worker=True)},
        },
    }


def worker_group(config: ClusterConfig, name: str) -> dict[str, Any]:
    """The resource ``DaskWorkerGroup``: further workers for a cluster that is there, such as some with GPUs."""
    pods = config.kubernetes
    assert pods is not None
    return {
        "apiVersion": API_VERSION,
        "kind": "DaskWorkerGroup",
        "metadata": {"name": name, "namespace": pods.namespace},
        "spec": {
            "cluster": pods.name,
            "worker": {"replicas": config.n_workers, "spec": _pod(config, _worker(config), of_worker=True)},
        },
    }


def _worker(config: ClusterConfig) -> dict[str, Any]:
    pods = config.kubernetes
    assert pods is not None
    limit = int(parse_bytes(config.memory_limit))
    memory = f"{math.ceil((limit + NANNY_BYTES) / 2**20)}Mi"
    # Kubernetes has no other way to say "one GPU" than as a limit.
    gpu = {"nvidia.com/gpu": "1"} if config.gpus is not None else {}
    options = ["--nthreads", str(config.threads_a_worker), "--memory-limit", str(limit)]
    if config.local_directory is not None:
        options += ["--local-directory", config.local_directory]
    return {
        "name": "worker",
        "image": pods.image,
        "args": ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--death-timeout", "60", *options],
        "env": [{"name": name, "value": value} for name, value in config.worker_environment.items()],
        "resources": {
            "requests": {"cpu": str(config.threads_a_worker), "memory": memory},
            "limits": {"memory": memory, **gpu},
        },
    }


def _pod(config: ClusterConfig, container: Mapping[str, Any], *, of_worker: bool) -> dict[str, Any]:
    pods = config.kubernetes
    assert pods is not None
    pod: dict[str, Any] = {"containers": [dict(container)]}
    if pods.volumes:
        names = [f"data-{k}" for k in range(len(pods.volumes))]
        pod["containers"][0]["volumeMounts"] = [
            {"name": name, "mountPath": volume.path} for name, volume in zip(names, pods.volumes, strict=True)
        ]
        pod["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": volume.claim}}
            for name, volume in zip(names, pods.volumes, strict=True)
        ]
    if of_worker and pods.node_selector:
        pod["nodeSelector"] = dict(pods.node_selector)
    if pods.service_account is not None:
        pod["serviceAccountName"] = pods.service_account
    if pods.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": pods.pull_secret}]
    return pod


def _runs(config: ClusterConfig) -> bool:
    """Whether there is a cluster of that name."""
    import kr8s

    pods = config.kubernetes
    assert pods is not None
    found = kr8s.get(f"daskclusters.{API_VERSION.partition('/')[0]}", pods.name, namespace=pods.namespace)
    return bool(list(found))


def dask_kubernetes() -> Any:
    """The part of dask-kubernetes that speaks with the operator.

    Raises:
        ClusterUnavailableError: It is not here.
    """
    try:
        from dask_kubernetes import operator
    except ImportError as error:
        raise ClusterUnavailableError(
            f"kind 'kubernetes' needs dask-kubernetes: pip install 'photonflow[kubernetes]' ({error})"
        ) from error
    return operator
