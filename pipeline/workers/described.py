"""A cluster configuration in words: what would be started."""

from __future__ import annotations

from typing import Any

from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.spans import slurm_walltime
from pipeline.workers.ssh_hosts import ssh_hosts


def describe(config: ClusterConfig) -> dict[str, Any]:
    """The configuration for a program: what was chosen, without what doesn't apply."""
    if config.kind == "existing":
        return {"kind": config.kind, "scheduler": config.scheduler}
    if config.kind == "local-gpu":
        return {"kind": config.kind, "gpus": config.n_workers, "streams": config.threads_a_worker}
    return {"kind": config.kind, "workers": config.n_workers, "threads": config.threads_a_worker}


def description(config: ClusterConfig) -> list[tuple[str, str]]:
    """What would be started, a name and a value in words each."""
    if config.kind == "existing":
        return [("kind", config.kind), ("scheduler", config.scheduler or "")]
    threads = f"{config.threads_a_worker} thread{'s' * (config.threads_a_worker != 1)}"
    memory = "a share of the memory" if config.memory_limit == "auto" else config.memory_limit
    gpu = ", 1 GPU" * (config.gpus is not None or config.kind == "local-gpu")
    number = f"{config.n_workers}"
    if config.adaptive is not None:
        number = f"{config.adaptive.minimum} to {config.adaptive.maximum}, as there is work"
    elif config.kind == "local-gpu" and config.gpus is None:
        number = "one a GPU"
    rows = [("kind", config.kind), ("workers", f"{number}; each {threads}, {memory}{gpu}")]
    if config.slurm is not None:
        jobs = config.slurm
        per_job = jobs.workers_per_job
        rows += [
            ("jobs", f"{-(-config.n_workers // per_job)}, each with {per_job} worker{'s' * (per_job != 1)}"),
            ("queue", jobs.queue or "Slurm's default"),
            ("account", jobs.account or "Slurm's default"),
            ("walltime", f"{slurm_walltime(jobs.walltime_seconds)}, and workers leave before {jobs.leave_before}"),
        ]
    if config.ssh is not None:
        scheduler, *workers = ssh_hosts(config)
        rows.append(("scheduler", f"on {scheduler}"))
        rows += [(host, f"{workers.count(host)} of the workers") for host in dict.fromkeys(workers)]
    if config.kubernetes is not None:
        pods = config.kubernetes
        rows += [("name", f"{pods.name} in the namespace {pods.namespace}"), ("image", pods.image)]
    if config.environment:
        rows.append(("environment", ", ".join(f"{name}={value}" for name, value in config.environment.items())))
    return [*rows, ("waits", f"{config.wait_for_workers} for workers")]
