"""A whole run: from a compressed archive on disk to a written dataset, against the peer fed from memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from distributed import Client

from benchmarks.race.contests import Row, Sizes, row
from benchmarks.race.peer import Peer
from benchmarks.race.subjects import Subject
from benchmarks.race.timing import Lap, race
from frame_archive import create_archive
from pipeline import ClusterConfig, PreparedRun, RunOptions, execute, open_cluster, prepare

WORKERS = 2
BATCH = 500


@dataclass(frozen=True)
class Variant:
    """A way to run that is compared with the usual one.

    Attributes:
        name: what it is.
        workers: processes.
        threads: threads of each.
        signal_dtype: type of the signals written.
    """

    name: str
    workers: int = WORKERS
    threads: int = 1
    signal_dtype: str = "int32"


VARIANTS = (
    Variant("two workers"),
    Variant("one worker of two threads", workers=1, threads=2),
    Variant("two workers, float32 signals", signal_dtype="float32"),
)


def whole_run(subject: Subject, folder: Path, n_frames: int, peer: Peer | None, sizes: Sizes) -> Iterator[Row]:
    """Runs of the pipeline on an archive of `n_frames` frames (those of the subject again and again).

    The times are those of the run's own table: from the first batch to the finished dataset, workers being ready. The
    peer's `ClusterFinderMT` has two threads and the frames in memory, and writes nothing.
    """
    archive = _archive(subject, folder / "run.zarr", n_frames)
    try:
        yield from _runs(subject, archive, folder, n_frames, peer, sizes)
    finally:
        shutil.rmtree(archive, ignore_errors=True)


def _runs(
    subject: Subject, archive: Path, folder: Path, n_frames: int, peer: Peer | None, sizes: Sizes
) -> Iterator[Row]:
    version = "" if peer is None else f"aare {peer.versions['aare']} MT"
    n_of_peer = len(subject.load())
    for variant in VARIANTS:
        with open_cluster(ClusterConfig(workers=variant.workers, threads=variant.threads)) as client:
            prepared = prepare(
                RunOptions(
                    str(archive),
                    str(folder / "run.clusters.zarr"),
                    batch_size=min(BATCH, n_frames // (2 * WORKERS)),
                    overwrite=True,
                    signal_dtype=variant.signal_dtype,
                )
            )

            contestants: dict[str, Callable[[], Lap]] = {"ours": partial(_lap, prepared, client)}
            if peer is not None and variant is VARIANTS[0]:
                contestants[version] = lambda: peer.run(subject, (3, 3), n_of_peer, threads=WORKERS)
            laps = race(contestants, sizes.repeats)
        yield row(
            f"whole run, {variant.name}", n_frames, laps["ours"], version or "nothing", laps.get(version),
            7 if version in laps else None, n_against=n_of_peer,
        )  # fmt: skip
    shutil.rmtree(folder / "run.clusters.zarr", ignore_errors=True)


def _lap(prepared: PreparedRun, client: Client) -> Lap:
    summary = execute(prepared, client).summary
    return Lap(summary.seconds, 0.0, 0, summary.clusters)


def _archive(subject: Subject, path: Path, n_frames: int) -> Path:
    frames = subject.load()
    assert subject.dark is not None
    dark = np.load(subject.dark, mmap_mode="r")
    writer = create_archive(
        path, (n_frames, *frames.shape[1:]), frames.dtype, n_dark=len(dark), frames_per_chunk=20, overwrite=True
    )
    for first in range(0, n_frames, 20):
        count = min(20, n_frames - first)
        writer.write_frames(first, frames[np.arange(first, first + count) % len(frames)])
    writer.write_dark(0, dark)
    return path
