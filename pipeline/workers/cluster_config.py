"""Which workers a run uses: what stands in a YAML file of ``cluster_configs/``, key by key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Security

from gpu.settings import GpuSettings
from pipeline.workers.cluster_sections import AdaptiveBounds, KubernetesPods, SlurmJobs, SshHosts, require_positive
from pipeline.workers.config_fields import take
from pipeline.workers.encryption import Tls
from pipeline.workers.spans import seconds_of

Kind = Literal["local-cpu", "local-gpu", "slurm", "ssh", "kubernetes", "existing"]
KINDS: tuple[str, ...] = get_args(Kind)
_STARTED_ONLY = (
    *("workers", "threads", "gpus", "memory_limit", "dashboard_address"),
    *("host", "interface", "local_directory", "adaptive"),
)
LARGEST_PORT = 65_535
# Which section belongs to which kind, by its name.
SECTIONS: tuple[Kind, ...] = ("slurm", "ssh", "kubernetes")

# One batch a thread: libraries that start threads of their own within it only get in each other's way.
# And memory that a batch's clusters took is kept for those of the next: Dask tells workers to hand it back to the
# system, and getting it anew, page by page, took longer than finding the clusters (glibc only; others ignore it).
WORKER_ENVIRONMENT: dict[str, str] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
# Dask's own look at GPUs fails, and the worker with it, on lists that CUDA takes: -1, the beginning of a UUID.
GPU_WORKER_ENVIRONMENT: dict[str, str] = {"DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False"}


@dataclass(frozen=True)
class ClusterConfig:
    """Which workers to use; the same keys as in the files of ``cluster_configs/``.

    Args:
        kind: ``local-cpu``: processes on this machine. ``local-gpu``: one process a GPU of this machine.
            ``slurm``: jobs. ``ssh``: processes on other machines. ``kubernetes``: pods. ``existing``: the workers of
            a running scheduler.
        workers: Worker processes to start; None is one a CPU core (``local-cpu``), one a host (``ssh``), or 1.
        threads: Threads a worker, each with a batch of its own, and on a GPU with a stream; None is 1, or 3 with a GPU.
        memory_limit: Memory a worker may use, as Dask writes it (``"4 GiB"``); ``"auto"`` is an even share of its
            machine, and can't be had with ``slurm`` and ``kubernetes``, which are asked for so much.
        gpus: Workers to start that have one GPU each, instead of ``workers``; with ``local-gpu`` None is all GPUs.
        scheduler: Address of the scheduler, such as ``tcp://node7:8786`` (``existing``).
        dashboard_address: Where the scheduler that is started serves Dask's dashboard, such as ``127.0.0.1:8787``;
            None is no dashboard: what draws it takes a second to load.
        host: The address that the scheduler listens on, and local workers too; other machines reach any but 127.0.0.1.
            None is 127.0.0.1 for local workers, and otherwise the address of ``interface``, or of the way out.
        interface: The network interface that scheduler and workers listen on, such as ``ib0``.
        local_directory: A fast local folder for what workers put aside.
        environment: Variables of the workers' environment, beside those that photonflow sets.
        adaptive: Bounds between which the number of workers follows the work, instead of ``workers``.
        wait_for_workers: How long a run waits for a first worker, and for another when all are gone (``1 day``).
        tls: Encrypt, and let in only who has the certificate: with the files given, or temporary ones, or those of
            Dask's configuration (``existing``).
        tls_ca_file: PEM file of the authority whose certificates are accepted.
        tls_cert: PEM file of our certificate.
        tls_key: PEM file of its key.
        slurm: See :class:`SlurmJobs`.
        ssh: See :class:`SshHosts`.
        kubernetes: See :class:`KubernetesPods`.
    """

    kind: Kind = "local-cpu"
    workers: int | None = None
    threads: int | None = None
    memory_limit: str = "auto"
    gpus: int | None = None
    scheduler: str | None = None
    dashboard_address: str | None = None
    host: str | None = None
    interface: str | None = None
    local_directory: str | None = None
    environment: dict[str, str | int | float] = field(default_factory=dict)
    adaptive: AdaptiveBounds | None = None
    wait_for_workers: str | float = "2 minutes"
    tls: bool = False
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    slurm: SlurmJobs | None = None
    ssh: SshHosts | None = None
    kubernetes: KubernetesPods | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is none of {', '.join(KINDS)}")
        for key, value in (("workers", self.workers), ("threads", self.threads), ("gpus", self.gpus)):
            if value is not None:
                require_positive(key, value)
        try:
            if self.memory_limit != "auto":
                parse_bytes(self.memory_limit)
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"memory_limit: {self.memory_limit!r} is no size, such as 4 GiB, nor auto") from error
        seconds_of(self.wait_for_workers, "wait_for_workers")
        if type(self.tls) is not bool:
            raise ValueError(f"tls: {self.tls!r} is neither true nor false")
        Tls(self.tls_ca_file, self.tls_cert, self.tls_key)
        self._require_what_the_kind_needs()
        self._refuse_what_the_kind_has_not()
        if self.dashboard_address is not None:
            _require_address(self.dashboard_address)
        if self.dashboard_address is not None and self.kind.startswith("local") and find_spec("bokeh") is None:
            raise ValueError("the dashboard needs bokeh: pip install 'photonflow[report]'")

    def _require_what_the_kind_needs(self) -> None:
        if self.kind == "existing" and not self.scheduler:
            raise ValueError("kind 'existing' needs the address of the scheduler (scheduler: tcp://host:8786)")
        if self.kind in SECTIONS and getattr(self, self.kind) is None:
            needs = {"ssh": "ssh:, with hosts:", "kubernetes": "kubernetes:, with image:"}.get(self.kind, "slurm:")
            raise ValueError(f"kind {self.kind!r} needs a section {needs}")
        if self.kind in ("slurm", "kubernetes") and self.memory_limit == "auto":
            raise ValueError(f"kind {self.kind!r} needs a memory_limit, such as 4 GiB: so much is asked for")
        if self.kind == "ssh" and self.tls and self.tls_ca_file is None:
            raise ValueError(
                "tls: with kind 'ssh' it needs tls_ca_file, tls_cert and tls_key, the same on all machines: temporary "
                "certificates would be seen there by everybody who lists processes"
            )

    def _refuse_what_the_kind_has_not(self) -> None:
        for section in SECTIONS:
            if section != self.kind and getattr(self, section) is not None:
                raise ValueError(f"{section}: is for kind {section!r}, and this is {self.kind!r}")
        if self.kind == "existing":
            given = [f.name for f in fields(self) if f.name in _STARTED_ONLY and getattr(self, f.name) != f.default]
            if given or self.environment:
                name = (given or ["environment"])[0]
                raise ValueError(
                    f"{name} is for workers that are started: those of a running scheduler are as they are"
                )
        elif self.scheduler is not None:
            raise ValueError(f"scheduler: is for kind 'existing', and this is {self.kind!r}")
        if self.gpus is not None and (self.workers is not None or self.kind == "local-cpu"):
            raise ValueError(
                "gpus: is for kind 'local-gpu'" if self.kind == "local-cpu" else "give gpus: or workers:, not both"
            )
        if self.gpus is not None and self.slurm is not None and self.slurm.workers_per_job != 1:
            raise ValueError("slurm.workers_per_job: with gpus a job has one worker and one GPU: leave it out")
        if self.adaptive is not None and (self.kind in ("ssh", "local-gpu") or self.workers is not None or self.gpus):
            raise ValueError(
                f"adaptive: kind {self.kind!r} has a fixed number of workers: leave it out"
                if self.kind in ("ssh", "local-gpu")
                else "give adaptive: or a number of workers, not both"
            )
        if self.kind == "kubernetes" and (self.interface or self.host):
            raise ValueError("interface and host: pods listen where Kubernetes says: leave them out")
        if self.kind == "kubernetes" and self.tls:
            raise ValueError("tls: the Dask operator sets up no certificates: encrypt with the cluster's own network")

    @staticmethod
    def from_yaml(name: str) -> ClusterConfig:
        """Read a YAML file, or one of those that come with photonflow by its name (``local-cpu``).

        Raises:
            ValueError: The file isn't there, isn't YAML, or holds a key or a value that means nothing here.
        """
        text = _yaml_text(name)
        try:
            content = yaml.load(text, Loader=_Yaml)
        except yaml.YAMLError as error:
            raise ValueError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{name} holds no keys: it needs at least `kind: {'`, or `kind: '.join(KINDS)}`")
        try:
            return take(ClusterConfig, content)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from error

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes on this machine, started here."""
        return self.kind in ("local-cpu", "local-gpu")

    @property
    def threads_a_worker(self) -> int:
        """Batches at work at once on each worker that is started."""
        return self.threads or (GpuSettings().n_streams if self.has_gpus else 1)

    @property
    def has_gpus(self) -> bool:
        """Whether each worker that is started has a GPU."""
        return self.kind == "local-gpu" or self.gpus is not None

    @property
    def security(self) -> Security | None:
        """What Dask is told of encryption; None is what its own configuration says."""
        if not self.tls and self.tls_ca_file is None:
            return None
        files = Tls(self.tls_ca_file, self.tls_cert, self.tls_key)
        return files.security(starts_cluster=self.kind != "existing")

    @property
    def n_workers(self) -> int:
        """Workers that are started, at first."""
        if self.adaptive is not None:
            return self.adaptive.minimum
        if self.workers or self.gpus:
            return self.workers or self.gpus or 1
        return {"local-cpu": CPU_COUNT, "ssh": len(self.ssh.hosts) if self.ssh else 1}.get(self.kind, 1)

    @property
    def worker_environment(self) -> dict[str, str]:
        """The variables that workers are started with."""
        ours = WORKER_ENVIRONMENT | (GPU_WORKER_ENVIRONMENT if self.has_gpus else {})
        return ours | {name: str(value) for name, value in self.environment.items()}

    @property
    def seconds_for_workers(self) -> float:
        """How long a run waits while there is no worker, in s."""
        return seconds_of(self.wait_for_workers, "wait_for_workers")


class _Yaml(yaml.SafeLoader):
    """YAML in which ``10:00:00`` is text; PyYAML takes it for a number to the base of 60."""


_Yaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?\d+$"), list("-+0123456789"))


def shipped_names() -> list[str]:
    """The names of the configurations that come with photonflow."""
    names: Iterable[str] = (entry.name for entry in resources.files("cluster_configs").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _require_address(address: str) -> None:
    host, colon, port = str(address).rpartition(":")
    if not colon or not port.isdecimal() or int(port) > LARGEST_PORT or any(map(str.isspace, host)):
        raise ValueError(f"dashboard_address: {address!r} is no address: give HOST:PORT, such as 127.0.0.1:8787")


def _yaml_text(name: str) -> str:
    path = Path(name)
    names = shipped_names()
    try:
        if path.exists():
            return path.read_text()
        if name in names:
            return (resources.files("cluster_configs") / f"{name}.yaml").read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} can't be read as a cluster configuration: {error}") from error
    raise ValueError(f"there is no cluster configuration {name!r}: give a YAML file, or one of {', '.join(names)}")
