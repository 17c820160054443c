"""The resources that a Kubernetes configuration makes, held to Kubernetes' own schemas and those of Dask's operator.

No Kubernetes runs here.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from pipeline import ClusterConfig, ClusterUnavailableError, open_cluster
from pipeline.workers.cluster_check import check_cluster
from pipeline.workers.kubernetes_pods import dask_cluster, worker_group

CONFIGS = Path(__file__).parents[2] / "cluster_configs"
TEXT = """
kind: kubernetes
{workers}
threads: 2
memory_limit: 8 GiB
local_directory: /scratch
environment: {{RAYON_NUM_THREADS: 2}}
kubernetes:
  image: registry.example.org/photonflow:1
  name: run-7
  namespace: beamline
  volumes: [{{claim: raw, path: /raw}}, {{claim: out, path: /out}}]
  node_selector: {{kubernetes.io/arch: amd64}}
  service_account: analysis
  pull_secret: registry
"""


@pytest.fixture
def config(tmp_path):
    def config(workers="workers: 3") -> ClusterConfig:
        (tmp_path / "k.yaml").write_text(TEXT.format(workers=workers))
        return ClusterConfig.from_yaml(str(tmp_path / "k.yaml"))

    return config


@cache
def crd(name: str) -> dict:
    """The schema of one of Dask's resources, in which no key is allowed that it doesn't name."""
    folder = Path(find_spec("dask_kubernetes").submodule_search_locations[0])
    text = (folder / f"operator/deployment/helm/dask-kubernetes-operator/crds/{name}.yaml").read_text()
    # 6 000 lines, which the parser in Python takes seconds for.
    schema = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    schema["properties"] |= {name: {} for name in ("apiVersion", "kind", "metadata")}
    return closed(schema)


def closed(schema):
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        inner["additionalProperties"] = "x-kubernetes-preserve-unknown-fields" in schema
    if schema.get("x-kubernetes-int-or-string"):
        inner.pop("type", None)
    return inner


def pods_of(resource):
    spec = resource["spec"]
    return [spec[part]["spec"] for part in ("scheduler", "worker") if part in spec]


def require_valid(resource):
    # Without looking at the schema first, which takes a second each time.
    for error in jsonschema.Draft202012Validator(crd(resource["kind"].lower())).iter_errors(resource):
        raise error


def require_known_to_kubernetes(kind, spec):
    wrapped = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(wrapped, "1.31", strict=True)


@pytest.mark.parametrize("workers", ["workers: 3", "gpus: 2", "adaptive: {minimum: 1, maximum: 4}"])
def test_what_is_asked_of_the_operator_is_valid_to_the_last_key(config, workers):
    require_valid(dask_cluster(config(workers)))
    require_valid(worker_group(config(workers), "more"))


def test_the_pods_and_the_service_are_valid_to_kubernetes_itself(config):
    cluster = dask_cluster(config("gpus: 2"))
    for pod in pods_of(cluster):
        require_known_to_kubernetes("Pod", pod)
    require_known_to_kubernetes("Service", cluster["spec"]["scheduler"]["service"])


@pytest.mark.parametrize("name", ["dask-cluster", "gpu-workers"])
def test_the_shipped_manifests_are_valid_to_the_last_key(name):
    require_valid(yaml.safe_load((CONFIGS / "kubernetes" / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("change", [("container", "imagee"), ("pod", "nodeSelektor"), ("spec", "replikas")])
def test_a_key_that_is_spelled_wrong_is_found(config, change):
    resource = copy.deepcopy(dask_cluster(config()))
    worker = resource["spec"]["worker"]
    where = {"container": worker["spec"]["containers"][0], "pod": worker["spec"], "spec": worker}[change[0]]
    where[change[1]] = {} if change[0] == "pod" else "x"
    with pytest.raises(jsonschema.ValidationError, match=change[1]):
        require_valid(resource)


def test_the_shipped_manifest_is_what_the_shipped_configuration_makes():
    shipped = yaml.safe_load((CONFIGS / "kubernetes" / "dask-cluster.yaml").read_text())
    assert shipped == dask_cluster(ClusterConfig.from_yaml("kubernetes"))


def test_a_worker_has_what_the_configuration_says(config):
    [pod] = pods_of(worker_group(config("gpus: 2"), "gpus"))
    [container] = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "8448Mi"},
        "limits": {"memory": "8448Mi", "nvidia.com/gpu": "1"},
    }
    assert {"name": "RAYON_NUM_THREADS", "value": "2"} in container["env"]
    assert container["args"][-2:] == ["--local-directory", "/scratch"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/raw", "/out"]
    assert pod["nodeSelector"] == {"kubernetes.io/arch": "amd64"}


@pytest.mark.skipif(find_spec("kr8s") is not None, reason="dask-kubernetes is here with all that it needs")
def test_without_dask_kubernetes_it_is_said_what_to_install(config):
    with (
        pytest.raises(ClusterUnavailableError, match=r"pip install 'photonflow\[kubernetes\]'"),
        open_cluster(config()),
    ):
        pass
    assert [check.what for check in check_cluster(config()) if not check.ok] == ["library"]
