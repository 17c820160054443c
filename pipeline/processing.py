"""The whole run as one Python call."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt
from distributed import Client

from cluster_store import open_dataset
from finder import CommonMode, FinderParameters, Pedestal
from finder.products import ProductName, ProductOptions, SpectrumBins
from pipeline.batches.run_record import RunProgress
from pipeline.checks.sizing import fit_to_memory
from pipeline.preparation import PreparedRun, RunOptions, prepare
from pipeline.run import execute
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.cluster_watch import Patience
from pipeline.workers.clusters import open_cluster
from pipeline.workers.device_choice import DeviceChoice, choose_device

if TYPE_CHECKING:
    import xarray as xr

logger = logging.getLogger(__name__)


class SkippedBatchesWarning(UserWarning):
    """A run is complete, but some of its batches are not in the dataset."""


def process(
    archive: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    client: Client | None = None,
    cpus: int | None = None,
    gpus: int | None = None,
    streams: int | None = None,
    scheduler: str | None = None,
    cluster: str | os.PathLike[str] | ClusterConfig | None = None,
    n_sigma: float = 5.0,
    cluster_size: tuple[int, int] = (3, 3),
    n_samples: int = 1000,
    noise: Literal["running", "trained"] = "running",
    batch_size: int = 2000,
    frames: tuple[int | None, int | None] = (None, None),
    frames_path: str | None = None,
    missing_chunks: Literal["error", "fill"] = "error",
    pedestal: str | os.PathLike[str] | Pedestal | None = None,
    dark_clip: float | None = None,
    gain_bits: int | None = None,
    mask: str | os.PathLike[str] | npt.NDArray[Any] | None = None,
    signal_dtype: Literal["int32", "float32"] = "int32",
    tracking: Literal["batch", "chain", "off"] = "batch",
    warmup: int = 0,
    recentre: int = 0,
    common_mode: str | CommonMode | None = None,
    on_bad_batch: Literal["fail", "skip"] = "fail",
    resume: bool = False,
    verify: bool = False,
    products: Sequence[ProductName] = (),
    spectrum_bins: tuple[int, int, int] = (0, 16_384, 1),
    eta_bins: int = 150,
    clusters: bool = True,
    overwrite: bool = False,
    backend: str = "auto",
    cluster_timeout: float = 120.0,
    batch_timeout: float | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> xr.Dataset:
    """Find the photon clusters of a frame archive and write them as one dataset.

    Args:
        archive: Path of the archive.
        out: Path of the dataset; by default ``x.clusters.zarr`` beside ``x.zarr``.
        client: A Dask client to run on; it is left as it was. Several runs at once may share it, from a thread each.
            An asynchronous one is for :func:`pipeline.process_async`. Without a client, workers are started and stopped
            again; a script that does so keeps its own code under ``if __name__ == "__main__":``, for they import it.
        cpus: Worker processes to start on this machine; by default one a core.
        gpus: GPUs of this machine to use, with a worker each; by default all, and the CPU where there is none.
        streams: Batches at work at once on each GPU; 3 by default.
        scheduler: Address of a Dask scheduler to run on.
        cluster: Workers as a file of ``cluster_configs/`` describes them: its path, the name of one that comes with
            photonflow, or what was made of one.
        n_sigma: Threshold in noise widths.
        cluster_size: Rows and columns of the window, odd, 3 to 9.
        n_samples: Memory of the running pedestal, in frames.
        noise: ``running`` or ``trained``.
        batch_size: Frames of a batch; part of the result, since each batch starts from the trained pedestal.
        frames: The frames ``(start, stop)`` to process, half-open.
        frames_path: The array of frames inside the archive, where it isn't obvious.
        missing_chunks: What to do with chunks that the archive lacks.
        pedestal: A :class:`finder.Pedestal`, ``"first:N"``, or a path (another archive, an earlier output, NPZ or Zarr
            with ``mean`` and ``noise``); by default the archive's own dark frames.
        dark_clip: Values of the darks that lie so many noise widths from their pixel's mean are left out, as photons in
            them do (see :mod:`finder.dark_clip`); None leaves out none.
        gain_bits: Bits above the value in the detector's 16-bit words, 2 for a Jungfrau: a pixel in another gain than 0
            is absent from that frame. None is what the archive's metadata say.
        mask: NeXus bits or bool (y, x), or a path; added to the archive's own mask.
        signal_dtype: Type of the signal in the dataset, in ADU.
        warmup: Frames before each batch that move its pedestal first.
        recentre: Frames at the start of each batch that its pedestal is moved to before it begins; 0 is none.
        common_mode: What moves together from frame to frame: ``row``, ``column`` or ``tile:RxC``.
        tracking: ``batch``: each batch starts from the trained pedestal. ``chain``: each where the last one ended.
            ``off``: frames move no pedestal.
        on_bad_batch: ``fail``: stop at the first batch that fails. ``skip``: mark its frames and go on.
        resume: Go on with what an earlier run left at ``out``; where there is nothing, begin.
        verify: Note a digest of each batch's frames; with ``resume``, read the frames of finished batches again and
            compare their digests, instead of going by the sizes and times of their files.
        products: What to count while clusters are found, of ``spectrum``, ``hitmap`` and ``eta``: the dataset's group
            ``products`` (see :mod:`finder.products`).
        spectrum_bins: Lowest energy, the end of the highest bin, and the bins' width, whole ADU.
        eta_bins: Bins of eta along each axis.
        clusters: False leaves the list of the clusters out, and with it most of the writing.
        overwrite: Replace an earlier output.
        backend: ``auto``, ``cpu``, ``cuda`` or ``reference``.
        cluster_timeout: How long to wait for a scheduler that does not answer, or for a worker if there is none, in s.
        batch_timeout: A worker that has a batch for longer, in s, is ended and the batch done elsewhere; None is 300
            and 20 times the median of the batches done.
        on_progress: Called with a :class:`RunProgress` after each batch, in this thread.
        should_stop: Asked several times a second, in this thread, whether to stop; then nothing new is begun, what is
            at work has a few seconds to end, and ``resume`` can go on with the rest.

    Returns:
        The dataset, opened from ``out``: ``signal`` (cluster, cluster_y, cluster_x), ``x``, ``y``, ``frame_index``
        (cluster), ``n_clusters`` (frame); without the list, what lies along ``frame``.

    Raises:
        ValueError: Bad input; the message says what, where, and what to do.
        RunError: The run could not be finished.
        RunStoppedError: (one of these) ``should_stop`` said so.
        OSError: The output can't be written, or exists.
        SkippedBatchesWarning: (as a warning) batches were skipped.
    """
    began = time.perf_counter()
    if sum(choice is not None for choice in (client, cpus, gpus, scheduler, cluster)) > 1:
        raise ValueError("client, cpus, gpus, scheduler and cluster exclude each other: give one of them")
    if client is not None and client.asynchronous:
        raise ValueError("process() would wait for the event loop that it keeps from running: await process_async()")
    config = _config(cpus, scheduler, cluster)
    choice = _device_choice(client, config, gpus, streams, backend)
    options = RunOptions(
        archive=os.fspath(archive),
        out=None if out is None else os.fspath(out),
        parameters=FinderParameters(
            n_sigma=n_sigma,
            cluster_size=cluster_size,
            n_samples=n_samples,
            noise=noise,
            common_mode=CommonMode.parse(common_mode) if isinstance(common_mode, str) else common_mode,
        ),
        backend=choice.backend,
        batch_size=batch_size,
        frames=frames,
        frames_path=frames_path,
        missing_chunks=missing_chunks,
        pedestal=os.fspath(pedestal) if isinstance(pedestal, os.PathLike) else pedestal,
        dark_clip=dark_clip,
        gain_bits=gain_bits,
        mask=os.fspath(mask) if isinstance(mask, os.PathLike) else mask,
        signal_dtype=signal_dtype,
        tracking=tracking,
        warmup=warmup,
        recentre=recentre,
        on_bad_batch=on_bad_batch,
        resume=resume,
        verify=verify,
        products=ProductOptions(tuple(products), SpectrumBins(*spectrum_bins), eta_bins),
        clusters=clusters,
        overwrite=overwrite,
    )
    prepared = prepare(options)
    waits = Patience(cluster_timeout, batch_timeout, None if cluster is None else choice.config.seconds_for_workers)
    with _open_cluster(prepared, choice) if client is None else nullcontext(client) as workers:
        result = execute(
            prepared,
            workers,
            on_progress=on_progress,
            began=began,
            patience=waits,
            should_stop=should_stop or (lambda: False),
        )
    if result.skipped:
        warnings.warn(
            f"{result.summary.frames_lost} frames of {len(result.skipped)} batches are not in {result.out}, the first "
            f"of {result.skipped[0].batch}: {result.skipped[0].cause}; process(..., resume=True) tries them again",
            SkippedBatchesWarning,
            stacklevel=2,
        )
    return open_dataset(result.out)


def _open_cluster(prepared: PreparedRun, choice: DeviceChoice) -> AbstractContextManager[Client]:
    sized = fit_to_memory(prepared, choice.config)
    if choice.reason:
        logger.info("workers %s", choice.reason)
    if sized.notice is not None:
        logger.warning(sized.notice)
    return open_cluster(sized.config)


def _config(
    cpus: int | None, scheduler: str | None, cluster: str | os.PathLike[str] | ClusterConfig | None
) -> ClusterConfig | None:
    if scheduler is not None:
        return ClusterConfig(kind="existing", scheduler=scheduler)
    if cpus is not None:
        return ClusterConfig(workers=cpus)
    return cluster if cluster is None or isinstance(cluster, ClusterConfig) else ClusterConfig.from_yaml(str(cluster))


def _device_choice(
    client: Client | None, config: ClusterConfig | None, gpus: int | None, streams: int | None, backend: str
) -> DeviceChoice:
    if client is not None:
        return DeviceChoice(ClusterConfig(kind="existing", scheduler="the client's"), backend)
    choice = choose_device(config, backend, gpus)
    if streams is None:
        return choice
    if choice.config.kind != "local-gpu":
        raise ValueError("streams is for GPUs of this machine, and this run uses none: leave it out")
    return replace(choice, config=replace(choice.config, threads=streams))
