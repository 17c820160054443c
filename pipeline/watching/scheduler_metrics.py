"""What a scheduler tells Prometheus of the runs on it, on the ``/metrics`` that Dask serves there.

Counters over all runs go on for as long as the scheduler does; what is told of a run, under its name, is there for as
long as the board has it. What workers count (:mod:`pipeline.watching.worker_metrics`) has other names, so that nothing
is summed twice.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipeline.watching.run_board import RunBoard, ShownRun

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_OF_A_RUN = ("run", "run_id")
_OF_A_STAGE = ("stage", "within")


class RunsCollector:
    """Collects from all boards of this process, of which there is one where it is a scheduler's."""

    def __init__(self) -> None:
        self._boards: weakref.WeakSet[RunBoard] = weakref.WeakSet()

    def add(self, board: RunBoard) -> None:
        """Collect from one more board, for as long as it is there."""
        self._boards.add(board)

    def describe(self) -> list[Metric]:
        """What registers it without a look at the boards."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' client library asks for them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        boards = list(self._boards)
        runs = [run for board in boards for run in board.runs.values()]
        going = sum(run.ended is None for run in runs)
        yield GaugeMetricFamily("photonflow_runs_in_progress", "Runs that go on.", value=going)
        ended = CounterMetricFamily("photonflow_runs", "Runs that ended, by how they did.", labels=["outcome"])
        retries = CounterMetricFamily(
            "photonflow_retries", "Tasks that were begun again after a failure or a worker's end.", labels=["step"]
        )
        for name, family in (("outcomes", ended), ("retries", retries)):
            labels = sorted({label for board in boards for label in getattr(board, name)})
            for label in labels:
                family.add_metric([label], sum(getattr(board, name)[label] for board in boards))
            yield family
        for name, what, value in (
            ("task_failures", "Tasks that failed after all their tries.", sum(b.failures for b in boards)),
            ("batches_skipped", "Batches that were given up.", sum(b.batches_skipped for b in boards)),
        ):
            yield CounterMetricFamily(f"photonflow_{name}", what, value=value)
        yield from _of_runs(runs)


def _of_runs(runs: list[ShownRun]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    now = time.time()

    def family(kind: Any, name: str, what: str, *labels: str) -> Any:
        return kind(f"photonflow_run_{name}", what, labels=[*_OF_A_RUN, *labels])

    families = {
        "frames": family(GaugeMetricFamily, "frames", "Frames of the run in all."),
        "frames_done": family(CounterMetricFamily, "frames_done", "Frames done."),
        "clusters": family(CounterMetricFamily, "clusters_found", "Clusters found."),
        "batches": family(GaugeMetricFamily, "batches", "Batches, by what has become of them.", "state"),
        "stage_seconds": family(CounterMetricFamily, "stage_seconds", "Worker-seconds in each stage.", *_OF_A_STAGE),
        "stage_bytes": family(CounterMetricFamily, "stage_bytes", "Bytes of each stage, uncompressed.", *_OF_A_STAGE),
        "ceiling": family(
            GaugeMetricFamily, "stage_ceiling_ratio", "How much of its measured ceiling a stage reached.", "stage"
        ),
        "idle": family(CounterMetricFamily, "idle_seconds", "Worker-seconds without a batch."),
        "offset": family(
            GaugeMetricFamily, "pedestal_offset_ratio", "Offset of the pedestal before the last batch, over the noise."
        ),
        "movement": family(
            GaugeMetricFamily, "pedestal_movement_ratio", "Movement of the pedestal within it, over the noise."
        ),
        "seconds": family(GaugeMetricFamily, "duration_seconds", "How long the run has gone on."),
        "left": family(GaugeMetricFamily, "remaining_seconds", "How long it will go on, at the rate so far."),
    }
    for run in runs:
        state, labels = run.state, [run.description.name, run.description.run_id]
        to_do = run.description.batches - state.batches - len(run.at_work)
        batches = {
            "done": state.batches - state.skipped,
            "in_flight": len(run.at_work),
            "skipped": state.skipped,
            "to_do": max(to_do, 0),
        }
        families["frames"].add_metric(labels, run.description.frames)
        families["frames_done"].add_metric(labels, state.frames)
        families["clusters"].add_metric(labels, state.clusters)
        for name, value in batches.items():
            families["batches"].add_metric([*labels, name], value)
        for stage in state.stages:
            families["stage_seconds"].add_metric([*labels, stage.name, stage.within], stage.seconds)
            families["stage_bytes"].add_metric([*labels, stage.name, stage.within], stage.nbytes)
            if math.isfinite(stage.share_of_ceiling):
                families["ceiling"].add_metric([*labels, stage.name], stage.share_of_ceiling)
        families["idle"].add_metric(labels, run.most_idle)
        figures = {"offset": state.offset, "movement": state.movement, "left": run.seconds_left(now)}
        for name, figure in (figures | {"seconds": run.seconds(now)}).items():
            if math.isfinite(figure):
                families[name].add_metric(labels, figure)
    yield from families.values()


_lock = threading.Lock()
_made: list[RunsCollector] = []


def collect_from(board: RunBoard) -> None:
    """Tell Prometheus of a board, on all ``/metrics`` of this process; without its client library nothing is told."""
    with _lock:
        if not _made:
            try:
                from prometheus_client import REGISTRY
            except ImportError:
                return
            collector = RunsCollector()
            REGISTRY.register(collector)
            _made.append(collector)
        _made[0].add(board)
