"""Whether the machines of a cluster configuration can be logged in to, and have this photonflow."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from pipeline.errors import ClusterUnavailableError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.ssh_hosts import connect_options, require_asyncssh, ssh_hosts

SECONDS_TO_ANSWER = 20.0


def check_ssh(config: ClusterConfig) -> Iterator[tuple[str, str, bool]]:
    """What was looked at, what was found, and whether that will do; machines are asked and start nothing that stays."""
    try:
        require_asyncssh()
    except ClusterUnavailableError as error:
        yield "library", str(error), False
        return
    yield "library", "asyncssh is here", True
    hosts = list(dict.fromkeys(ssh_hosts(config)))
    # In a loop of its own: one of Dask's may run in this process.
    for host, (found, ok) in zip(hosts, asyncio.run(_ask_all(config, hosts)), strict=True):
        yield host, found, ok


async def _ask_all(config: ClusterConfig, hosts: list[str]) -> list[tuple[str, bool]]:
    return await asyncio.gather(*(_ask(config, host) for host in hosts))


async def _ask(config: ClusterConfig, host: str) -> tuple[str, bool]:
    import asyncssh

    assert config.ssh is not None
    python = config.ssh.python or sys.executable
    program = "from importlib.metadata import version; print(version('photonflow'))"
    try:
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            connection: Any = await asyncssh.connect(host, **connect_options(config))
            async with connection:
                answer = await connection.run(f"{shlex.quote(python)} -c {shlex.quote(program)}")
    except TimeoutError:
        return f"has not answered for {SECONDS_TO_ANSWER:g} s", False
    except (OSError, asyncssh.Error, ValueError) as error:
        return f"can't be logged in to: {' '.join(str(error).split()) or type(error).__name__}", False
    if answer.exit_status:
        last = [line for line in str(answer.stderr).splitlines() if line.strip()][-1:]
        return f"{python} has no photonflow there: {last[0].strip() if last else 'it does not start'}", False
    theirs, ours = str(answer.stdout).strip(), metadata.version("photonflow")
    if theirs != ours:
        return f"has photonflow {theirs} and this is {ours}: install the same version on both", False
    return f"can be logged in to, and has photonflow {theirs}", True
