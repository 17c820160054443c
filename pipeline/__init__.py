"""From an archive to a cluster dataset, on the workers of a Dask cluster."""

from pipeline.asynchronous import process_async
from pipeline.batches.run_record import RunProgress
from pipeline.checks.dark_problems import WrongDarksWarning
from pipeline.checks.pedestal_warnings import BadPixelsWarning, CommonModeWarning, StalePedestalWarning
from pipeline.errors import BatchError, ClusterUnavailableError, OutputError, ResumeError, RunError, RunStoppedError
from pipeline.output.finishing import RunResult
from pipeline.preparation import PreparedRun, RunOptions, prepare
from pipeline.processing import SkippedBatchesWarning, process
from pipeline.run import execute
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.clusters import open_cluster

__all__ = [
    "BadPixelsWarning",
    "BatchError",
    "ClusterConfig",
    "ClusterUnavailableError",
    "CommonModeWarning",
    "OutputError",
    "PreparedRun",
    "ResumeError",
    "RunError",
    "RunOptions",
    "RunProgress",
    "RunResult",
    "RunStoppedError",
    "SkippedBatchesWarning",
    "StalePedestalWarning",
    "WrongDarksWarning",
    "execute",
    "open_cluster",
    "prepare",
    "process",
    "process_async",
]
