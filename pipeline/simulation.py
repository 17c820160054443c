"""Simulated archives, written in parallel by the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice

from distributed import Client, Future, KilledWorker, as_completed

from frame_archive import ArchiveError, FrameArchive
from frame_archive.creation import require_room_for_archive
from frame_archive.simulated_archive import Part, SimulatedArchive
from frame_archive.simulation import SimulatedDetector
from pipeline.errors import RunError
from pipeline.workers.cluster_config import ClusterConfig
from pipeline.workers.clusters import count_workers, open_cluster
from pipeline.workers.versions import require_photonflow

_PARTS_AHEAD = 3


def simulate_archive(
    path: str | os.PathLike[str],
    detector: SimulatedDetector,
    n_frames: int,
    n_dark: int = 1000,
    *,
    client: Client | None = None,
    n_workers: int | None = None,
    frames_per_chunk: int = 20,
    overwrite: bool = False,
    on_step: Callable[[str], object] | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> FrameArchive:
    """Write an archive of simulated frames with their darks, mask and truth; the same on any number of workers.

    Args:
        path: Where; nothing may be there, unless ``overwrite`` and it is an archive that photonflow made.
        detector: What to simulate.
        n_frames: Frames to write.
        n_dark: Dark frames to write.
        client: Of the cluster to use; None starts processes on this machine and ends them.
        n_workers: How many processes to start; None is one a CPU core. Not with ``client``.
        frames_per_chunk: Frames of a stored chunk.
        overwrite: Replace what is there.
        on_step: Called with what the run does from now on.
        on_progress: Called with the frames done, darks included, and how many there are in all.

    Raises:
        frame_archive.ArchiveError: The place is taken or cannot be written; what was written stays, incomplete.
        RunError: A worker died, or the workers of ``client`` lack this photonflow.
        ValueError: An argument does not make sense.
    """
    if client is not None and n_workers is not None:
        raise ValueError("n_workers is for processes started here: a client has its own")
    if client is not None:
        require_photonflow(client)
    require_room_for_archive(path, overwrite)
    step = on_step or (lambda text: None)
    progress = on_progress or (lambda done, total: None)
    config = ClusterConfig(workers=n_workers)
    if client is None:
        step(f"starting {config.n_workers} worker{'s' * (config.n_workers != 1)}")
    # Workers that can't be started leave nothing behind: the archive is begun when they are there.
    with nullcontext(client) if client is not None else open_cluster(config) as workers:
        archive = SimulatedArchive.create(path, detector, n_frames, n_dark, frames_per_chunk, overwrite)
        _write_parts(archive, workers, step, progress)
    return archive.writer.archive()


def _write_parts(
    archive: SimulatedArchive,
    client: Client,
    step: Callable[[str], object],
    progress: Callable[[int, int], object],
) -> None:
    step(f"simulating {archive.n_frames:,} frames and {archive.n_dark:,} darks")
    total = archive.n_dark + archive.n_frames
    parts = archive.parts()
    # Never more than the workers need next: a long archive has more parts than the scheduler should hold.
    ahead = islice(parts, _PARTS_AHEAD * max(1, count_workers(client)))
    finished = as_completed(loop=client.loop)
    pending: set[Future[int | ArchiveError]] = set()

    def submit(part: Part) -> None:
        future = client.submit(_write_part, part, archive, pure=False)
        pending.add(future)
        finished.add(future)

    done = 0
    progress(done, total)
    try:
        for part in ahead:
            submit(part)
        for future in finished:
            pending.discard(future)
            outcome = future.result()
            if isinstance(outcome, ArchiveError):
                raise outcome
            done += outcome
            progress(done, total)
            for part in islice(parts, 1):
                submit(part)
    except KilledWorker as error:
        raise RunError(f"a worker died while it simulated, and so did those that took its place: {error}") from error
    finally:
        client.cancel(list(pending))


def _write_part(part: Part, archive: SimulatedArchive) -> int | ArchiveError:
    # Returned, not raised: Dask would log the traceback of what is a plain sentence, a full disk for one.
    try:
        return archive.write(part)
    except ArchiveError as error:
        return error
