"""From an archive to a cluster dataset, on the workers of a Dask cluster."""

from pipeline.clusters import ClusterConfig, open_cluster
from pipeline.dark_problems import WrongDarksWarning
from pipeline.errors import BatchError, ClusterUnavailableError, OutputError, ResumeError, RunError
from pipeline.pedestal_warnings import BadPixelsWarning, CommonModeWarning, StalePedestalWarning
from pipeline.preparation import PreparedRun, RunOptions, prepare
from pipeline.processing import SkippedBatchesWarning, process
from pipeline.run import RunResult, execute
from pipeline.submission import RunProgress

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
    "SkippedBatchesWarning",
    "StalePedestalWarning",
    "WrongDarksWarning",
    "execute",
    "open_cluster",
    "prepare",
    "process",
]
