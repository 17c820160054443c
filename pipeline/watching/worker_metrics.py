"""What a worker counts for Prometheus, on the ``/metrics`` that Dask serves on each.

The counters are the process's, as Prometheus wants them: they outlive a run, go on with the next, and count work that
was done, also where a batch was done again. Without ``prometheus_client`` nothing is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.batches.reports import BatchCount, BatchWrite
from pipeline.batches.stage_totals import StageTotals

# From a batch of a few small frames to one of thousands of large ones, in s.
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class WorkerMetrics:
    """The counters of a process; made once (:func:`worker_metrics`)."""

    def __init__(self, registry: Any) -> None:
        from prometheus_client import Counter, Histogram

        def counter(name: str, what: str, *labels: str) -> Any:
            return Counter(f"photonflow_{name}", what, labels, registry=registry)

        def histogram(name: str, what: str) -> Any:
            return Histogram(f"photonflow_{name}", what, registry=registry, buckets=_BUCKETS)

        self.frames = counter("frames", "Frames in which clusters were looked for.")
        self.clusters = counter("clusters", "Clusters found.")
        self.batches = counter("batches", "Batches found.")
        of_stage = ("stage", "within")  # what passes within another stage is a part of its time
        self.stage_seconds = counter("stage_seconds", "Time in each stage, in seconds.", *of_stage)
        self.stage_bytes = counter("stage_bytes", "Bytes that each stage took or gave, uncompressed.", *of_stage)
        self.stored_bytes = counter("stored_bytes", "Bytes of the files that frames were read from.")
        self.idle_seconds = counter("idle_seconds", "Time without a batch between two of a run, in seconds.")
        self.failures = counter("failures", "Tasks that failed, whether they were tried again or not.", "step")
        self.batch_duration = histogram("batch_duration_seconds", "Time to read a batch and find its clusters.")
        self.write_duration = histogram("write_duration_seconds", "Time to encode and write the rows of a batch.")

    def add_found(self, count: BatchCount) -> None:
        """A batch was found."""
        self.frames.inc(count.batch.n_frames)
        self.clusters.inc(count.n_clusters)
        self.batches.inc()
        self.stored_bytes.inc(count.stored_bytes)
        self.idle_seconds.inc(max(count.idle_seconds, 0.0))
        self.batch_duration.observe(max(count.ended - count.began, 0.0))
        totals = StageTotals()
        totals.add_count(count)
        self._add_stages(totals)

    def add_written(self, write: BatchWrite) -> None:
        """Rows were written."""
        self.write_duration.observe(max(write.seconds, 0.0))
        totals = StageTotals()
        totals.add_write(write)
        self._add_stages(totals)

    def _add_stages(self, totals: StageTotals) -> None:
        for use in totals.uses():
            if use.busy_seconds > 0:
                self.stage_seconds.labels(use.name, use.within or "").inc(use.busy_seconds)
                self.stage_bytes.labels(use.name, use.within or "").inc(max(use.nbytes, 0))


_lock = threading.Lock()
_made: list[WorkerMetrics] = []


def worker_metrics() -> WorkerMetrics | None:
    """The counters of this process, made at the first call; None where there is no ``prometheus_client``."""
    with _lock:
        if not _made:
            try:
                from prometheus_client import REGISTRY
            except ImportError:
                return None
            _made.append(WorkerMetrics(REGISTRY))
        return _made[0]


def add_found(count: BatchCount) -> None:
    """Count a batch that was found."""
    if (metrics := worker_metrics()) is not None:
        metrics.add_found(count)


def add_written(write: BatchWrite) -> None:
    """Count rows that were written."""
    if (metrics := worker_metrics()) is not None:
        metrics.add_written(write)


@contextmanager
def failures_counted(step: str) -> Iterator[None]:
    """Count it if the task that is done within fails."""
    try:
        yield
    except Exception:
        if (metrics := worker_metrics()) is not None:
            metrics.failures.labels(step).inc()
        raise
