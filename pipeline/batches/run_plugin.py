"""What all batches of a run share on a worker: the archive, the finder, the writer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from distributed import Worker, WorkerPlugin, get_worker

from cluster_store import ClusterWriter, DatasetLayout, FrameStatus
from finder import Finder, FinderParameters, Pedestal, chosen_backend, open_finder, recentred
from finder.offset import lower_median
from finder.products import ProductCounter, ProductOptions
from finder.rounding import narrowed, rounded
from frame_archive import ArchiveAddress, FrameArchive
from gpu.settings import GpuSettings
from pipeline.batches.chain_start import ChainOptions
from pipeline.batches.chain_states import ChainStart, ChainStates
from pipeline.batches.plan import Batch
from pipeline.batches.work_clock import WorkClock
from pipeline.errors import ClusterUnavailableError
from pipeline.faults import writing
from pipeline.output.side_places import side_folder
from pipeline.watching.gpu_memory import GPU_METRIC, GpuMemory
from pipeline.watching.worker_metrics import worker_metrics
from pipeline.workers.compiling_news import compiling_reported
from pipeline.workers.gpu_workers import decode_threads

if TYPE_CHECKING:
    from pipeline.batches.reading_ahead import ReadAhead


@dataclass(frozen=True)
class RunSetup:
    """All that a worker must know of a run; small, except for the pedestal's planes.

    Args:
        run_id: Tells runs on one cluster apart.
        archive: Where the frames are.
        dataset: Where the clusters go.
        layout: The layout of the dataset.
        parameters: What the finder is told.
        backend: Which finder.
        pedestal: The trained pedestal, from which every batch starts.
        pixel_mask: NeXus bits (y, x), or None.
        block_bytes: The most bytes of frames to read at a time, if the archive's chunks allow.
        chains: How chains start, and whether frames move their pedestal.
        products: What is counted of the clusters.
        verify: Whether a batch's frames get a digest, to be compared when the run is gone on with.
        chain_folder: Where the pedestal after each batch is kept for the next; None where none starts from another.
    """

    run_id: str
    archive: ArchiveAddress
    dataset: str
    layout: DatasetLayout
    parameters: FinderParameters
    backend: str
    pedestal: Pedestal
    pixel_mask: npt.NDArray[np.integer[Any]] | None
    block_bytes: int
    chains: ChainOptions
    products: ProductOptions = field(default_factory=ProductOptions)
    verify: bool = False
    chain_folder: str | None = None


class RunPlugin(WorkerPlugin):
    """Holds archive, finder and writer of one run on a worker.

    The scheduler gives it to every worker, also to one that starts or restarts later.
    """

    ahead: ReadAhead | None = None
    _gpu_memory: GpuMemory | None = None

    def __init__(self, setup: RunSetup) -> None:
        self.run = setup
        self.name = plugin_name(setup.run_id)
        self.version = metadata.version("photonflow")

    async def setup(self, worker: Worker) -> None:
        """Open the archive and make the finder."""
        # In a thread: compiling takes seconds, in which the worker goes on answering, and tells what it does.
        await asyncio.to_thread(self._prepare, worker)
        if self._gpu_memory is not None:
            worker.metrics[f"{GPU_METRIC}{self.run.run_id}"] = self._gpu_memory

    def _prepare(self, worker: Worker) -> None:
        with compiling_reported(worker, self.run.run_id):
            self._open(worker)

    def _open(self, worker: Worker) -> None:
        self.archive: FrameArchive = self.run.archive.open()
        self.finder = self._opened_finder(worker)
        self.writer = ClusterWriter(self.run.dataset, self.run.layout, self.run.run_id)
        # One frame now, so that what has to be compiled is compiled before the first batch.
        frame = np.zeros((1, *self.archive.frame_shape), self.archive.dtype)
        chain = self.finder.chain(self.run.pedestal, tracking=self.run.chains.follows)
        chain.find(frame)
        _ = chain.activity
        lower_median(frame)
        narrowed(rounded(np.zeros((1, *self.run.layout.cluster_size), np.float32), np.int32))
        if self.run.chains.recentre:
            parameters = self.run.parameters
            recentred(self.run.pedestal, frame, common_mode=parameters.common_mode, gain_bits=parameters.gain_bits)
        one, window = np.zeros(1, np.uint16), np.zeros((1, *self.run.layout.cluster_size), np.int32)
        if not self.finder.counts.names:
            self.counter().add(one, one, window)
        worker_metrics()  # so that what is counted is there to be asked for, at 0
        self.clock = WorkClock()

    def teardown(self, worker: Worker) -> None:
        """Let go of what keeps threads and page-locked memory."""
        worker.metrics.pop(f"{GPU_METRIC}{self.run.run_id}", None)
        if self.ahead is not None:
            self.ahead.close()

    def _opened_finder(self, worker: Worker) -> Finder:
        run, shape = self.run, self.archive.frame_shape
        if chosen_backend(run.backend) != "cuda":
            return open_finder(run.backend, run.parameters, shape, run.pixel_mask)
        # Late: this module is loaded where runs are started too, and Numba comes with these.
        from gpu.finder import CudaFinder
        from pipeline.batches.reading_ahead import ReadAhead

        # A stream for each thread.
        settings = GpuSettings(n_streams=int(worker.state.nthreads))
        finder = CudaFinder(run.parameters, shape, run.pixel_mask, settings=settings, counts=run.products)
        self.ahead = ReadAhead(self.archive, finder, decode_threads(worker))
        self._gpu_memory = GpuMemory(finder.device)
        return finder

    def counter(self) -> ProductCounter:
        """Counts the clusters of a batch."""
        return ProductCounter(self.run.products, self.run.layout.frame_shape, self.run.layout.cluster_size)

    def start_of(self, start: ChainStart | None) -> Pedestal:
        """The pedestal that a batch starts from."""
        if start is None:
            return self.run.pedestal
        assert self.run.chain_folder is not None
        return ChainStates(side_folder(self.run.chain_folder)).read(start, self.run.parameters.n_samples)

    def keep_state(self, batch: Batch, pedestal: Pedestal) -> str:
        """Keep the pedestal after a batch for the next, if it is to start there; returns its digest, or nothing."""
        if self.run.chain_folder is None:
            return ""
        # A worker that outlived its run leaves no state to the run that went on with it.
        self.writer.require_run()
        return ChainStates(side_folder(self.run.chain_folder)).write(batch.index, pedestal)

    def write_frames(
        self,
        batch: Batch,
        n_clusters: npt.NDArray[np.uint32],
        frame_numbers: npt.NDArray[np.uint64],
        status: FrameStatus,
    ) -> None:
        """Write what the dataset holds for each frame of a batch."""
        with writing(self.run.dataset):
            self.writer.write_frames(
                batch.start - self.run.layout.first_frame,
                n_clusters,
                frame_numbers,
                np.full(batch.n_frames, status, np.uint8),
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"run": self.run, "name": self.name, "version": self.version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A worker that comes while the run goes on was not asked before; what it can't unpickle makes it leave.
        ours = metadata.version("photonflow")
        if ours != state["version"]:
            raise ClusterUnavailableError(
                f"this worker has photonflow {ours} and the run is of {state['version']}: install the same on both"
            )
        self.__dict__.update(state)


def plugin_name(run_id: str) -> str:
    """The name under which the plugin of a run is registered."""
    return f"photonflow-{run_id}"


def plugin_of(run_id: str) -> RunPlugin:
    """The plugin of a run on the worker whose task asks."""
    plugin = get_worker().plugins[plugin_name(run_id)]
    assert isinstance(plugin, RunPlugin)
    return plugin
