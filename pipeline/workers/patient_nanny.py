"""Starting workers although something kills one before it is up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Nanny, Status

logger = logging.getLogger(__name__)

STARTS = 3


class PatientNanny(Nanny):
    """A nanny that starts its worker anew if that is killed while it starts.

    Dask's own brings back a worker that is killed later, but gives up on one that never was up, and the cluster with
    it. A worker that left by itself (exit status 1 or so) would do that again, so it is not started anew.

    Args:
        environment: Variables that the worker's process is started with. Dask's own way to them, its configuration,
            belongs to the whole process, and would be another one by the time a worker is added or started anew.
        scheduler, env, options: What :class:`distributed.Nanny` takes.
    """

    _exit_code = 0

    def __init__(
        self,
        scheduler: str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        given = dict(environment or {})
        super().__init__(scheduler, env=given | dict(env or {}), **options)
        self.pre_spawn_env |= given

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self._exit_code = exitcode
        pass_on: Callable[[int], None] = super()._on_worker_exit_sync
        pass_on(exitcode)

    async def instantiate(self) -> Status:
        """Start the worker's process and wait until it is up."""
        status = await super().instantiate()
        for _ in range(STARTS - 1):
            starts_the_first_time = self.status in (Status.init, Status.starting)
            if status == Status.running or self._exit_code >= 0 or not starts_the_first_time:
                break
            logger.warning("a worker was killed (signal %d) while it started: starting another", -self._exit_code)
            status = await super().instantiate()
        return status
