"""A Slurm job of dask-jobqueue that Slurm may refuse; imported where there is dask-jobqueue."""

from __future__ import annotations

from dask_jobqueue.slurm import SLURMJob
from distributed import Status


class RefusableJob(SLURMJob):
    """A job that notes why Slurm refused it, where dask-jobqueue's own leaves the cluster unable to close.

    Attributes:
        refusal: What Slurm said; None is a job that it took.
    """

    refusal: str | None = None

    async def start(self) -> None:
        """Submit the job."""
        try:
            await super().start()
        except (RuntimeError, OSError, ValueError) as error:
            said = str(error).partition("stderr:\n")[2] or str(error)
            self.refusal = " ".join(said.split()).replace("sbatch: error: ", "")
            self.status = Status.running

    async def close(self) -> None:
        """Cancel the job, if there is one."""
        await self._close_job(self.job_id, self.cancel_command)
        self.status = Status.closed
