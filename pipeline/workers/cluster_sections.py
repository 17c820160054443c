"""The sections of a cluster configuration: adaptive bounds, and what Slurm, SSH and Kubernetes need to know."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipeline.workers.spans import seconds_of, seconds_of_walltime


@dataclass(frozen=True)
class AdaptiveBounds:
    """How far the number of workers follows the work.

    Args:
        minimum: Workers that are kept, 1 or more.
        maximum: Workers that are started at most.
    """

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError(
                f"adaptive: minimum {self.minimum} and maximum {self.maximum} are no bounds: "
                "give 1 or more as minimum, and no less as maximum"
            )


@dataclass(frozen=True)
class SlurmJobs:
    """What the Slurm jobs ask for, in which the workers run.

    Args:
        queue: The partition; None is Slurm's default.
        account: The account that is charged.
        walltime: How long a job may take, as Slurm writes it (``02:00:00``) or in words (``2 hours``).
        leave_before: So long before its walltime ends a worker takes no further batch, gives what it has to the
            others and leaves; a new job takes its place.
        workers_per_job: Workers in one job, for clusters that give whole nodes; with ``gpus`` a job has one of each.
        gres: What a job with a GPU asks for.
        cores: Cores a job; None is a core a thread.
        directives: Further lines for ``#SBATCH``, such as ``--constraint=zen4``.
        prologue: Shell commands before the worker starts, such as ``module load cuda/12``.
        python: The Python to start workers with; None is the one that photonflow was started with.
        shared_directory: A folder that this machine and the nodes see under the same path: job logs, and the
            certificates of ``tls: true``, which last as long as the cluster.
    """

    queue: str | None = None
    account: str | None = None
    walltime: str | int = "01:00:00"
    leave_before: str | int = "5 minutes"
    workers_per_job: int = 1
    gres: str = "gpu:1"
    cores: int | None = None
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()
    python: str | None = None
    shared_directory: str = "slurm-jobs"

    def __post_init__(self) -> None:
        require_positive("slurm.workers_per_job", self.workers_per_job)
        if self.cores is not None:
            require_positive("slurm.cores", self.cores)
        if self.seconds_of_work <= 0:
            raise ValueError(
                f"slurm.leave_before: {self.leave_before!r} leaves nothing of the walltime {self.walltime!r}: give less"
            )

    @property
    def walltime_seconds(self) -> int:
        """How long a job may take, in s."""
        return seconds_of_walltime(self.walltime, "slurm.walltime")

    @property
    def seconds_of_work(self) -> int:
        """How long a worker stays, in s."""
        return self.walltime_seconds - round(seconds_of(self.leave_before, "slurm.leave_before"))


@dataclass(frozen=True)
class SshHosts:
    """The machines on which workers are started by SSH.

    Args:
        hosts: Their names or addresses; workers are dealt out to them in turn.
        scheduler: Where the scheduler is started; None is the first of the hosts.
        user: The name to log in with; None is what SSH's own configuration says.
        port: The port of the SSH servers; None likewise.
        key: File of the private key; None likewise, or the agent's.
        known_hosts: File of the machines' keys; None is SSH's own. A machine that is not in it is refused.
        python: The Python on those machines; None is the path of the one that photonflow was started with.
    """

    hosts: tuple[str, ...]
    scheduler: str | None = None
    user: str | None = None
    port: int | None = None
    key: str | None = None
    known_hosts: str | None = None
    python: str | None = None

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ValueError("ssh.hosts names no machine: give at least one")


@dataclass(frozen=True)
class Volume:
    """A persistent volume claim that scheduler and workers see.

    Args:
        claim: Its name.
        path: Where it is mounted; the client has to see archive and output under the same path.
    """

    claim: str
    path: str


@dataclass(frozen=True)
class KubernetesPods:
    """The pods of scheduler and workers, which the Dask operator starts.

    Args:
        image: An image with the same photonflow (Dockerfiles: ``cluster_configs/kubernetes/``).
        name: The name of the cluster; one of that name that runs already is used, and left as it is.
        namespace: Where it lives.
        volumes: What is mounted in all pods.
        node_selector: Labels that the workers' nodes must have.
        service_account: The account that the pods run under.
        pull_secret: The secret that the image is pulled with.
    """

    image: str
    name: str = "photonflow"
    namespace: str = "default"
    volumes: tuple[Volume, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    service_account: str | None = None
    pull_secret: str | None = None

    def __post_init__(self) -> None:
        for key, value in (("name", self.name), ("namespace", self.namespace)):
            if not re.fullmatch(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", value):
                raise ValueError(
                    f"kubernetes.{key}: {value!r} is no name in Kubernetes: small letters, digits and -, a letter first"
                )


def require_positive(name: str, value: object) -> None:
    """Refuse what is no whole number above 0.

    Raises:
        ValueError: It is none.
    """
    if type(value) is not int or value < 1:
        raise ValueError(f"{name}: {value!r} were asked for, and it takes at least 1")
