"""Workers in Slurm jobs, through dask-jobqueue; jobs that end are replaced for as long as the cluster is wanted."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dask.utils import parse_bytes
from distributed import Security, Status
from distributed.deploy.spec import SpecCluster

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.held_interrupts import interrupts_held_back
from pipeline.workers.spans import slurm_walltime

logger = logging.getLogger(__name__)

COMMANDS = ("sbatch", "scancel", "squeue")
# Slurm's controller is asked about jobs no more often than this, and only while one of them has no worker here.
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_TO_ANSWER = 30.0
# Jobs in a row that end before their worker has come: then something is wrong with all of them.
FRUITLESS_JOBS = 5
# What the process takes that looks after a worker.
NANNY_BYTES = 256 << 20


@contextmanager
def slurm_cluster(config: ClusterConfig, security: Security | None) -> Iterator[SpecCluster]:
    """Jobs with the workers that ``config`` describes; the scheduler is in this process, and the jobs end with it.

    Raises:
        ClusterUnavailableError: dask-jobqueue or Slurm's commands are not here, or Slurm refuses the jobs.
    """
    library = dask_jobqueue()
    for command in COMMANDS:
        if shutil.which(command) is None:
            raise ClusterUnavailableError(
                f"Slurm's command {command} is not on the PATH here: run this on a login node"
            )
    from pipeline.workers.slurm_job import RefusableJob

    assert config.slurm is not None
    folder = Path(config.slurm.shared_directory).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterUnavailableError(f"slurm.shared_directory {folder} can't be made: {error.strerror}") from error
    options: dict[str, Any] = {
        "dashboard_address": config.dashboard_address or "127.0.0.1:0",
        "dashboard": config.dashboard_address is not None,
    }
    if config.host is not None:
        options["host"] = config.host
    try:
        with interrupts_held_back():
            cluster = library.SLURMCluster(
                job_cls=RefusableJob,
                security=security,
                shared_temp_directory=str(folder),
                scheduler_options=options,
                silence_logs=logging.CRITICAL,
                **job_options(config),
            )
    except (RuntimeError, OSError, ValueError) as error:
        raise ClusterUnavailableError(f"the scheduler of the Slurm jobs can't be started here: {error}") from error
    with cluster:
        watch = JobWatch(cluster, folder)
        cluster.trouble = watch.trouble
        try:
            _submit_first(cluster, config)
            watch.start()
            yield cluster
        finally:
            watch.stop()


def job_options(config: ClusterConfig) -> dict[str, Any]:
    """What dask-jobqueue is told of each job."""
    jobs = config.slurm
    assert jobs is not None
    worker_bytes = int(parse_bytes(config.memory_limit))
    cores = config.threads_a_worker * jobs.workers_per_job
    # Workers do not all leave at once, and none later than it should.
    stagger = jobs.seconds_of_work / 10
    environment = [f"export {name}={shlex.quote(value)}" for name, value in config.worker_environment.items()]
    directives = [f"--gres={jobs.gres}"] * (config.gpus is not None)
    return {
        "job_name": "photonflow",
        "queue": jobs.queue,
        "account": jobs.account,
        "walltime": slurm_walltime(jobs.walltime_seconds),
        "cores": cores,
        "processes": jobs.workers_per_job,
        "memory": f"{worker_bytes * jobs.workers_per_job} B",
        "job_cpu": jobs.cores or cores,
        "job_mem": f"{math.ceil((worker_bytes + NANNY_BYTES) * jobs.workers_per_job / 2**20)}M",
        "job_extra_directives": [*directives, *jobs.directives],
        "job_script_prologue": [*environment, *jobs.prologue],
        "python": jobs.python,
        "log_directory": str(Path(jobs.shared_directory).absolute()),
        "local_directory": config.local_directory,
        "interface": config.interface,
        "worker_extra_args": [
            *("--lifetime", f"{jobs.seconds_of_work - stagger:.0f}s", "--lifetime-stagger", f"{stagger:.0f}s")
        ],
    }


def job_script(config: ClusterConfig) -> str:
    """The script of one job, with a scheduler's address that leads nowhere.

    Raises:
        ClusterUnavailableError: dask-jobqueue is not here.
    """
    job = dask_jobqueue().slurm.SLURMJob("tcp://scheduler:8786", name="photonflow-0", **job_options(config))
    return str(job.job_script())


def jobs_in_queue() -> set[str]:
    """The ids of this user's jobs that wait, run or are about to.

    Raises:
        OSError: Slurm does not answer.
    """
    asked = ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"]
    states = "--states=PENDING,RUNNING,CONFIGURING,SUSPENDED,STOPPED,REQUEUED,RESIZING,SIGNALING"
    try:
        answer = subprocess.run([*asked, states], capture_output=True, text=True, timeout=SECONDS_TO_ANSWER)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"squeue has not answered for {SECONDS_TO_ANSWER:g} s") from error
    if answer.returncode:
        raise OSError(f"squeue: {' '.join(answer.stderr.split())}")
    return set(answer.stdout.split())


class JobWatch:
    """Replaces jobs that ended: cancelled, out of time, lost with their node.

    dask-jobqueue takes such a job from its list, when its worker was there at all, and leaves it at that.

    Args:
        cluster: The ``SLURMCluster``.
        logs: The folder of the jobs' logs.
    """

    def __init__(self, cluster: Any, logs: Path) -> None:
        self._cluster = cluster
        self._logs = logs
        self._stopped = threading.Event()
        self._fruitless = 0
        self._with_worker: set[str] = set()
        self._last = ""
        self._thread = threading.Thread(target=self._watch, daemon=True, name="photonflow-slurm-jobs")

    def trouble(self) -> str | None:
        """What is wrong if no worker comes although jobs are submitted again and again; None while all is well."""
        return self._last if self._fruitless >= FRUITLESS_JOBS else None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        # Jobs that come to nothing are submitted ever more seldom, up to one try a minute.
        while not self._stopped.wait(SECONDS_BETWEEN_LOOKS * min(1 + self._fruitless // FRUITLESS_JOBS, 12)):
            try:
                self._cluster.sync(self._look)
            except Exception as error:
                # Slurm may be restarted under a run: it is asked again.
                logger.info("replacing Slurm jobs: %s: %s", type(error).__name__, error)

    async def _look(self) -> None:
        """In the thread of the cluster's event loop, which alone may touch its lists."""
        cluster = self._cluster
        here = {str(worker["name"]) for worker in cluster.scheduler_info["workers"].values()}
        waiting = {}
        for name, job in cluster.workers.items():
            names = [f"{name}{suffix}" for suffix in cluster.worker_spec.get(name, {}).get("group", [""])]
            if here.isdisjoint(names):
                waiting[name] = job
            else:
                self._with_worker.add(str(job.job_id))
                self._fruitless = 0
        if waiting:
            queued = await asyncio.to_thread(jobs_in_queue)
            for name, job in waiting.items():
                if str(job.job_id) not in queued and cluster.workers.get(name) is job:
                    self._take_off(name, job)
        if set(cluster.worker_spec) - set(cluster.workers):
            await cluster._correct_state()

    def _take_off(self, name: str, job: Any) -> None:
        del self._cluster.workers[name]
        job.status = Status.closed
        if getattr(self._cluster, "_adaptive", None) is not None:
            # Dask asks for as many as there is work for; what is still planned it would take for coming.
            self._cluster.worker_spec.pop(name, None)
        if job.refusal is None and str(job.job_id) in self._with_worker:
            logger.info("Slurm job %s has ended: another takes its place", job.job_id)
            return
        self._fruitless += 1
        if job.refusal is not None:
            self._last = refused(job.refusal)
        else:
            log = self._logs / f"photonflow-{job.job_id}.err"
            self._last = (
                f"Slurm jobs end before their worker has come, the last one {job.job_id}: see its log "
                f"{log}{_last_words(log)}"
            )
        logger.info(self._last)


def refused(said: str) -> str:
    """That Slurm does not take the job, in a sentence."""
    return f"Slurm refuses the job: {said}; `photonflow cluster check` shows what is asked for"


def _submit_first(cluster: Any, config: ClusterConfig) -> None:
    """Submit the first jobs, and hear at once if Slurm refuses them."""
    assert config.slurm is not None
    cluster.scale(jobs=math.ceil(config.n_workers / config.slurm.workers_per_job))
    cluster.sync(cluster._correct_state)
    refusals = [job.refusal for job in cluster.workers.values() if job.refusal is not None]
    if refusals:
        raise ClusterUnavailableError(refused(refusals[0]))
    if config.adaptive is not None:
        cluster.adapt(minimum=config.adaptive.minimum, maximum=config.adaptive.maximum)


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    last = [line.strip() for line in lines if line.strip()][-1:]
    return f" ({last[0]})" if last else ""


def dask_jobqueue() -> Any:
    """The library.

    Raises:
        ClusterUnavailableError: It is not here.
    """
    try:
        import dask_jobqueue as library
        import dask_jobqueue.slurm
    except ImportError as error:
        raise ClusterUnavailableError(
            f"kind 'slurm' needs dask-jobqueue: pip install 'photonflow[slurm]' ({error})"
        ) from error
    return library
