"""Whether Kubernetes answers, has the Dask operator's resources, and lets us make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.kubernetes_pods import API_VERSION, dask_kubernetes

CRDS = ("daskclusters", "daskworkergroups", "daskautoscalers")


def check_kubernetes(config: ClusterConfig) -> Iterator[tuple[str, str, bool]]:
    """What was looked at, what was found, and whether that will do; Kubernetes is asked and starts nothing."""
    assert config.kubernetes is not None
    try:
        dask_kubernetes()
    except ClusterUnavailableError as error:
        yield "library", str(error), False
        return
    yield "library", "dask-kubernetes is here", True
    import kr8s

    namespace, group = config.kubernetes.namespace, API_VERSION.partition("/")[0]
    try:
        version: Any = kr8s.version()
        yield "Kubernetes", f"answers, version {version.get('gitVersion', 'unknown')}", True
        there = {crd.name for crd in kr8s.get("customresourcedefinitions")}
        missing = [name for name in CRDS if f"{name}.{group}" not in there]
        yield (
            "Dask operator",
            f"its resources {', '.join(missing)} are not there: install the operator" if missing else "is there",
            not missing,
        )
        yield "permission", *_may_create(namespace, group)
    except Exception as error:
        # Kubernetes' client has kinds of its own for each way to fail.
        yield "Kubernetes", f"does not answer: {' '.join(str(error).split()) or type(error).__name__}", False


def _may_create(namespace: str, group: str) -> tuple[str, bool]:
    from kr8s.objects import new_class

    review = new_class("SelfSubjectAccessReview", "authorization.k8s.io/v1", namespaced=False)(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {"generateName": "photonflow-"},
            "spec": {
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": "create",
                    "group": group,
                    "resource": "daskclusters",
                }
            },
        }
    )
    review.create()
    allowed = bool(review.raw.get("status", {}).get("allowed"))
    words = "to make DaskClusters in the namespace"
    return (f"you have it, {words} {namespace}" if allowed else f"you have none {words} {namespace}"), allowed
