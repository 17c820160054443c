"""Whether the frames of an archive are still those that a run's batches were found in, by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from distributed import Client, Future, as_completed

from cluster_store import FrameStatus, dataset_status, read_table
from pipeline.batches.failures import failure
from pipeline.batches.reading import digest_frames
from pipeline.batches.reports import BatchCount
from pipeline.errors import ResumeError, RunStoppedError
from pipeline.preparation import PreparedRun
from pipeline.workers.cluster_watch import ClusterWatch
from pipeline.workers.deaths import DeathsByTask

# Batches read at a time a worker thread, and how often one is tried again, as when they are found.
_WINDOW, _RETRIES = 2, 2


class FrameComparison:
    """Reads the frames of finished batches again, on the workers, and compares their digests with those noted.

    Args:
        prepared: The run that goes on.
        client: The cluster, whose workers have the run's plugin.
        run_id: The run.
        watch: Notices when the cluster is lost, and when the run should stop.
        on_step: Told in a few words what begins.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        client: Client,
        run_id: str,
        watch: ClusterWatch,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._prepared = prepared
        self._client = client
        self._run_id = run_id
        self._watch = watch
        self._on_step = on_step

    def __call__(self, counts: Mapping[int, BatchCount]) -> None:
        """Make sure that the frames are the same.

        Args:
            counts: What the journal says of each batch; of a complete dataset, whose journal is gone, nothing.

        Raises:
            ResumeError: A batch's frames have changed, can't be read, or had no digest taken.
            ClusterUnavailableError: The cluster went away.
            RunStoppedError: The run was asked to stop.
        """
        noted = {k: count.content for k, count in sorted(counts.items()) if count.status is FrameStatus.OK}
        if not counts and dataset_status(self._prepared.out) == "complete":
            noted = _noted_in_dataset(self._prepared.out)
        without = next((k for k, content in noted.items() if not content), None)
        if without is not None:
            raise ResumeError(
                f"{self._prepared.out} can't be verified: {self._prepared.plan[without]} was found without --verify, "
                "so that no digest of its frames was taken: go on without --verify, by the files' sizes and times, or "
                "give --overwrite to begin anew"
            )
        if noted:
            self._on_step(f"verifying the frames of {len(noted)} batches")
            self._compare(noted)

    def _compare(self, noted: Mapping[int, str]) -> None:
        left = iter(noted)
        at_once = _WINDOW * max(self._watch.n_threads, 1)
        at_work = {str(future.key): (k, future) for k in islice(left, at_once) for future in [self._submit(k)]}
        queue = as_completed([future for _, future in at_work.values()], loop=self._client.loop, raise_errors=False)
        wrong: dict[int, str] = {}
        while not queue.is_empty():
            for future in self._watch.next_done(queue):
                index, _ = at_work.pop(str(future.key))
                if (problem := self._problem(index, future, noted[index])) is not None:
                    wrong[index] = problem
                # After a wrong one only those before it matter, and they are at work already.
                for k in () if wrong else islice(left, 1):
                    another = self._submit(k)
                    at_work[str(another.key)] = k, another
                    queue.add(another)
            if self._watch.should_stop():
                raise RunStoppedError("the archive was being verified")
        if wrong:
            raise ResumeError(f"{self._prepared.out} can't be gone on with: {wrong[min(wrong)]}")

    def _submit(self, index: int) -> Future[Any]:
        key = f"verify-{self._run_id}-{index}"
        batch = self._prepared.plan[index]
        return self._client.submit(digest_frames, self._run_id, batch, key=key, retries=_RETRIES, pure=False)

    def _problem(self, index: int, future: Future[Any], noted: str) -> str | None:
        batch = self._prepared.plan[index]
        if future.status != "finished":
            failed = failure("verify", batch, future, self._watch, DeathsByTask())
            if failed.status is None:
                raise failed.error
            return f"the frames of {batch} can't be read again: {failed.cause}"
        if self._watch.report(future) != noted:
            return f"the frames of {batch} are not what they were when it was found: give --overwrite to begin anew"
        return None


def _noted_in_dataset(out: str) -> dict[int, str]:
    """The digests that a complete dataset holds of its batches; empty ones where it was made without."""
    table = read_table(out, "batches")
    if table is None:
        return {}
    found = [k for k, status in enumerate(table["status"].values.tolist()) if status == FrameStatus.OK]
    if "frames_xxh3" not in table:
        return dict.fromkeys(found, "")
    digests = table["frames_xxh3"].values.tolist()
    return {k: f"{digests[k]:016x}" for k in found}
