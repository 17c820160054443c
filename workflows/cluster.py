"""``photonflow cluster``: what a cluster configuration would start, and a cluster that several runs use."""

from __future__ import annotations

import json
import threading
from typing import Any

import click
import yaml

from workflows.command_line import ExitCode, configure_logging, run
from workflows.interruptions import Interruption, interruptions

_FILE = click.argument("file", metavar="FILE|NAME")


@click.group(name="cluster")
def command() -> None:
    """Look at a cluster configuration, or keep its workers up for several runs.

    FILE is a YAML file as in cluster_configs/; NAME is one of those that come with photonflow, such as slurm.
    """


@command.command()
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def check(file: str, as_json: bool, verbose: int) -> None:
    """Say what would be started, and whether it can be; start nothing."""
    configure_logging(verbose)
    with interruptions.leaving_at_once():
        from pipeline import ClusterConfig
        from pipeline.workers.cluster_check import check_cluster
        from pipeline.workers.described import description
    config = ClusterConfig.from_yaml(file)
    found = list(check_cluster(config))
    fine = all(one.ok for one in found)
    if as_json:
        content: dict[str, Any] = {
            "would_start": dict(description(config)),
            "checks": [{"what": one.what, "found": one.found, "ok": one.ok} for one in found],
            "ok": fine,
        }
        click.echo(json.dumps(content, indent=2))
    else:
        from workflows.terminal import facts_table, print_table, stdout_console

        rows = [*description(config), *((one.what, one.found if one.ok else f"NO: {one.found}") for one in found)]
        print_table(stdout_console(), facts_table(rows))
        click.echo("it can be started" if fine else "it can't be started as it is")
    if not fine:
        click.get_current_context().exit(ExitCode.FAILED)


@command.command()
@_FILE
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def start(file: str, verbose: int) -> None:
    """Keep the workers up until Ctrl-C; runs join them with --scheduler and the address that is printed."""
    configure_logging(verbose)
    with interruptions.leaving_at_once():
        from pipeline import ClusterConfig, open_cluster
        from pipeline.watching.run_reporter import link_of_page
        from pipeline.workers.cluster_watch import ClusterWatch, Patience
    config = ClusterConfig.from_yaml(file)
    if config.kind == "existing":
        raise ValueError(f"{file} is of kind 'existing': that scheduler runs already, use it with --cluster {file}")
    interruptions.left = "no worker was started"
    try:
        with (
            interruptions.held(lambda: click.echo("photonflow: ending the workers", err=True)) as should_stop,
            open_cluster(config) as client,
        ):
            watch = ClusterWatch(
                client, patience=Patience(worker_seconds=config.seconds_for_workers), should_stop=should_stop
            )
            click.echo(f"scheduler: {client.scheduler_info(n_workers=0)['address']}")
            for name in ("tls_ca_file", "tls_cert", "tls_key"):
                if getattr(config, name) is not None:
                    click.echo(f"{name}: {getattr(config, name)}")
            if config.dashboard_address is not None:
                click.echo(f"dashboard: {client.dashboard_link}")
            if (page := link_of_page(client, watch)) is not None:
                click.echo(f"its runs: {page}")
            click.echo("Ctrl-C ends it")
            _hold(watch, should_stop)
    except KeyboardInterrupt as interruption:
        raise Interruption.of(interruption, interruptions.left) from None


def _hold(watch: Any, should_stop: Any) -> None:
    """Look at the cluster until it is to end, and say when workers come and go."""
    known = -1
    while not should_stop():
        watch.look()
        if len(watch.workers) != known:
            known = len(watch.workers)
            click.echo(f"photonflow: {known} worker{'s' * (known != 1)}", err=True)
        threading.Event().wait(0.2)


@command.command()
@_FILE
@click.option("--group", metavar="NAME", help="Only a group of workers, to be added to a cluster that is there.")
def manifest(file: str, group: str | None) -> None:
    """Print the resources of a Kubernetes configuration, for kubectl apply."""
    with interruptions.leaving_at_once():
        from pipeline import ClusterConfig
        from pipeline.workers.kubernetes_pods import dask_cluster, worker_group
    config = ClusterConfig.from_yaml(file)
    if config.kubernetes is None:
        raise ValueError(f"{file} is of kind {config.kind!r}: only 'kubernetes' has a manifest")
    content = dask_cluster(config) if group is None else worker_group(config, group)
    click.echo(yaml.safe_dump(content, sort_keys=False), nl=False)


if __name__ == "__main__":
    run(command)
