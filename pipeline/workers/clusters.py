"""Where a run's workers come from: a local cluster, a running scheduler, or what a YAML file says."""

from __future__ import annotations

import difflib
import logging
import multiprocessing
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import metadata, resources
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Literal, get_args

import dask
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Security

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_watch import ClusterWatch
from pipeline.workers.encryption import ExposedWarning, Tls, exposures
from pipeline.workers.patient_nanny import PatientNanny

Kind = Literal["local-cpu", "existing"]
KINDS: tuple[str, ...] = get_args(Kind)
SECONDS_TO_ANSWER = 10

WORKER_ENVIRONMENT = {
    # One batch a thread: libraries that start threads of their own within it only get in each other's way.
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "RAYON_NUM_THREADS": 1,
    # Memory that a batch's clusters took is kept for those of the next. Dask tells workers to hand it back to the
    # system, and getting it anew, page by page, took longer than finding the clusters (glibc only; others ignore it).
    "MALLOC_ARENA_MAX": 1,
    "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "MALLOC_TRIM_THRESHOLD_": 1 << 30,
}


@dataclass(frozen=True)
class ClusterConfig:
    """Which workers to use; the same keys as in the files of ``cluster_configs/``.

    Args:
        kind: ``local-cpu``: processes on this machine. ``existing``: the workers of a running scheduler.
        workers: Worker processes to start (``local-cpu``); None is one a CPU core.
        threads: Threads a worker, each with a batch of its own (``local-cpu``).
        memory_limit: Memory a worker may use, as Dask writes it (``"4 GiB"``, ``"auto"``) (``local-cpu``).
        scheduler: Address of the scheduler, such as ``tcp://node7:8786`` (``existing``).
        dashboard_address: Where the scheduler that is started serves Dask's dashboard, such as ``127.0.0.1:8787``;
            None is no dashboard: what draws it takes a second to load (``local-cpu``).
        host: The address that scheduler and workers listen on; other machines reach any but 127.0.0.1
            (``local-cpu``).
        tls: Encrypt, and let in only who has the certificate: with the files given, or temporary ones
            (``local-cpu``) or those of Dask's configuration (``existing``).
        tls_ca_file: PEM file of the authority whose certificates are accepted.
        tls_cert: PEM file of our certificate.
        tls_key: PEM file of its key.
    """

    kind: Kind = "local-cpu"
    workers: int | None = None
    threads: int = 1
    memory_limit: str = "auto"
    scheduler: str | None = None
    dashboard_address: str | None = None
    host: str = "127.0.0.1"
    tls: bool = False
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ValueError(f"workers: {self.workers!r} were asked for, and it takes at least 1")
        if type(self.threads) is not int or self.threads < 1:
            raise ValueError(f"threads: {self.threads!r} were asked for, and it takes at least 1")
        try:
            if self.memory_limit != "auto":
                parse_bytes(self.memory_limit)
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"memory_limit: {self.memory_limit!r} is no size, such as 4 GiB, nor auto") from error
        if self.kind == "existing" and not self.scheduler:
            raise ValueError("kind 'existing' needs the address of the scheduler (scheduler: tcp://host:8786)")
        if type(self.tls) is not bool:
            raise ValueError(f"tls: {self.tls!r} is neither true nor false")
        Tls(self.tls_ca_file, self.tls_cert, self.tls_key)
        if self.kind == "existing" and self.host != "127.0.0.1":
            raise ValueError("host is for workers started here: those of a running scheduler listen where they do")
        if self.dashboard_address is not None and find_spec("bokeh") is None:
            raise ValueError("the dashboard needs bokeh: pip install 'photonflow[report]'")

    @staticmethod
    def from_yaml(name: str) -> ClusterConfig:
        """Read a YAML file, or one of those that come with photonflow by its name (``local-cpu``).

        Raises:
            ValueError: The file isn't there, isn't YAML, or holds a key or a value that means nothing here.
        """
        text = _yaml_text(name)
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{name} holds no keys: it needs at least `kind: local-cpu` or `kind: existing`")
        known = [field.name for field in fields(ClusterConfig)]
        for key in content:
            if key not in known:
                nearest = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(known)}"
                raise ValueError(f"{name} has the unknown key {key!r}: {hint}")
        try:
            return ClusterConfig(**content)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    @property
    def security(self) -> Security | None:
        """What Dask is told of encryption; None is what its own configuration says."""
        if not self.tls and self.tls_ca_file is None:
            return None
        files = Tls(self.tls_ca_file, self.tls_cert, self.tls_key)
        return files.security(starts_cluster=self.kind != "existing")

    @property
    def n_workers(self) -> int:
        """Workers that a local cluster would be started with."""
        return self.workers or CPU_COUNT


@contextmanager
def open_cluster(config: ClusterConfig) -> Iterator[Client]:
    """A client of the cluster that ``config`` describes; what was started for it ends with it.

    Nothing is registered as Dask's default client.

    Raises:
        ClusterUnavailableError: No scheduler answers, it has no workers, or its workers lack this photonflow.
    """
    if config.kind == "existing":
        assert config.scheduler is not None
        with _connect(config.scheduler, config.security) as client:
            yield client
        return
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker that has just been started imports the script that starts it, and came here again.
        raise SystemExit(1)
    security = config.security
    for sentence in exposures(config.host, config.dashboard_address, security is not None):
        warnings.warn(sentence, ExposedWarning, stacklevel=3)
    try:
        with _interrupts_held_back(), dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT}):
            cluster = _local_cluster(config, security)
    except RuntimeError as error:
        raise ClusterUnavailableError(
            f"{config.n_workers} worker{'s' * (config.n_workers != 1)} could not be started on this machine; in a "
            'script, code that starts workers has to stand under `if __name__ == "__main__":`, for they import the '
            "script"
        ) from error
    with _patience_with_lost_workers(), cluster, Client(cluster, set_as_default=False) as client:
        yield client


def _local_cluster(config: ClusterConfig, security: Security | None) -> LocalCluster:
    return LocalCluster(
        n_workers=config.n_workers,
        threads_per_worker=config.threads,
        processes=True,
        worker_class=PatientNanny,
        host=config.host,
        security=security,
        memory_limit=config.memory_limit,
        dashboard_address=config.dashboard_address or "127.0.0.1:0",
        scheduler_kwargs={"dashboard": config.dashboard_address is not None},
        # What fails on a worker reaches the client as an exception; the log would say it again, with tracebacks.
        silence_logs=logging.CRITICAL,
    )


def count_workers(client: Client) -> int:
    """Worker threads of a cluster at this moment: so many batches can be at work at once."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(worker["nthreads"] for worker in workers)


def require_photonflow(client: Client, watch: ClusterWatch | None = None) -> None:
    """Check that every worker has the photonflow of this process.

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

    for address, theirs in watch.answer(versions, "tell the versions of photonflow on its workers").items():
        if isinstance(theirs, BaseException):
            raise ClusterUnavailableError(
                f"the worker at {address} has no photonflow ({theirs}): install version {ours} where it runs"
            )
        if theirs != ours:
            raise ClusterUnavailableError(
                f"the worker at {address} has photonflow {theirs} and this is {ours}: install the same version on both"
            )


@contextmanager
def _patience_with_lost_workers() -> Iterator[None]:
    """Let a worker that died come back however long its start takes.

    Dask's cluster looks 15 s after the loss of one, and ends for good what would have started it anew; on a busy
    machine Python and the finder take longer than that to load.
    """
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
        yield


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Start threads and processes that a Ctrl-C doesn't reach: they inherit what is held back.

    A terminal sends it to all processes; only this one is to act on it, and it ends the others in good order. A Ctrl-C
    in the meantime arrives afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Where this starts a process of its own it lets interrupts through again, so that has to happen first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connect(address: str, security: Security | None) -> Client:
    # Dask retries in the background and logs each try; one sentence at the end says all of it.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=SECONDS_TO_ANSWER, security=security, set_as_default=False)
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


def _yaml_text(name: str) -> str:
    path = Path(name)
    try:
        if path.suffix in (".yaml", ".yml") or path.exists():
            return path.read_text()
        shipped = resources.files("cluster_configs")
        if (shipped / f"{name}.yaml").is_file():
            return (shipped / f"{name}.yaml").read_text()
        names = sorted(entry.name.removesuffix(".yaml") for entry in shipped.iterdir() if entry.name.endswith(".yaml"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} can't be read as a cluster configuration: {error}") from error
    raise ValueError(f"there is no cluster configuration {name!r}: give a YAML file, or one of {', '.join(names)}")


def describe(config: ClusterConfig) -> dict[str, Any]:
    """The configuration for a person: what was chosen, without what doesn't apply."""
    if config.kind == "existing":
        return {"kind": config.kind, "scheduler": config.scheduler}
    return {"kind": config.kind, "workers": config.n_workers, "threads": config.threads}
