"""Measures all ceilings of this machine, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from finder import Clusters, Pedestal, open_finder
from finder.clusters import coordinate_dtype
from frame_archive import FrameArchive
from gpu.availability import NoGpuError, usable_gpus
from pipeline.ceilings.arithmetic import Arithmetic, Memory
from pipeline.ceilings.codecs import CODECS, Codec, Decode, Write
from pipeline.ceilings.crew import WINDOW_SECONDS, Crew, Work
from pipeline.ceilings.gpu import GPU_CEILINGS, WHAT, GpuWork
from pipeline.ceilings.machine import cores, machine, storage_of
from pipeline.ceilings.measured import PAGE_FAULTS, Ceilings, MeasuredCeiling
from pipeline.ceilings.page_faults import FirstTouch
from pipeline.ceilings.storage import StillCachedError, read_rate
from pipeline.ceilings.subject import Subject

MEASURED_BYTES = 256 << 20
"""So many bytes of the archive are read, at most."""
WINDOWS_OF_NOISE = 4096


@dataclass(frozen=True)
class _Wanted:
    """A ceiling that processes measure."""

    name: str
    what: str
    unit: str
    work: Work
    one_core_only: bool = False


def measure_ceilings(
    subject: Subject | None = None,
    on_step: Callable[[str], None] = lambda step: None,
    window_seconds: float = WINDOW_SECONDS,
) -> Ceilings:
    """Measure what this machine does at best; under a minute.

    Args:
        subject: An archive and its dataset; None: memory and arithmetic only.
        on_step: Told what is measured next.
        window_seconds: How long each of five looks at a rate takes, in s.

    Raises:
        ValueError: The archive can't be read, or nothing can be written beside the output.
        RunError: A process ended.
    """
    n_cores = cores()
    found: list[MeasuredCeiling] = []
    with tempfile.TemporaryDirectory(prefix=".photonflow-ceilings-", dir=_place(subject)) as folder:
        wanted = [*_of_the_machine(), *(_of_a_run(subject, folder) if subject is not None else ())]
        if subject is not None:
            on_step("reading")
            found += _reading(subject, n_cores)
        with Crew(n_cores, window_seconds) as crew:
            for ceiling in wanted:
                on_step(ceiling.name)
                found.append(
                    MeasuredCeiling(
                        ceiling.name,
                        ceiling.what,
                        ceiling.unit,
                        one_core=crew.rate(ceiling.work, 1),
                        all_cores=None if ceiling.one_core_only else crew.rate(ceiling.work, n_cores),
                        cores=n_cores,
                    )
                )
            found += _of_gpus(crew, on_step)
    measured = datetime.now(UTC).isoformat(timespec="seconds")
    return Ceilings(machine(), measured, {ceiling.name: ceiling for ceiling in found})


def _place(subject: Subject | None) -> str | None:
    if subject is None:
        return None
    return str(next(parent for parent in Path(subject.out).parents if parent.exists()))


def _of_the_machine() -> Iterator[_Wanted]:
    yield _Wanted("memory copy", "a = b, arrays of 64 MiB", "B/s", Memory("copy"))
    yield _Wanted("memory triad", "a = b + s · c, arrays of 64 MiB", "B/s", Memory("triad"))
    yield _Wanted("float32", "multiply and add, not fused", "op/s", Arithmetic("float32"))
    yield _Wanted("int32", "multiply and add", "op/s", Arithmetic("int32"))
    yield _Wanted(PAGE_FAULTS, "fresh memory, touched for the first time", "fault/s", FirstTouch())


def _of_a_run(subject: Subject, folder: str) -> Iterator[_Wanted]:
    archive, layout = subject.archive, subject.layout
    stop, apart = _frames_measured(archive), subject.reads_apart()
    yield _Wanted(
        subject.decode(apart=apart),
        "the archive's own chunks" + ("" if apart else ", from the page cache"),
        "B/s",
        Decode(archive.address, stop),
    )
    for codec in CODECS:
        what = "a chunk in memory, copied" if codec == "uncompressed" else "a chunk in memory, bitshuffled"
        what += "; to be compared, on one core only"
        yield _Wanted(f"decode {codec}", what, "B/s", Codec(archive.address, codec), one_core_only=True)
    yield _Wanted(
        subject.write(),
        "the dataset's own chunks, encoded and written",
        "B/s",
        Write(folder, layout, _some_clusters(subject)),
    )


def _frames_measured(archive: FrameArchive) -> int:
    chunk = archive.frames.chunks[0]
    return int(min(archive.n_frames, max(chunk, MEASURED_BYTES // archive.frame_nbytes)))


def _some_clusters(subject: Subject) -> Clusters:
    """Clusters of the first frames, found with a pedestal made of these: good enough to be encoded.

    Where these hold no photons, windows of noise: they pack about as well.
    """
    archive, parameters = subject.archive, subject.parameters
    frames = np.empty((min(20, archive.n_frames), *archive.frame_shape), archive.dtype)
    archive.read(0, len(frames), frames)
    middle = np.median(frames, axis=0)
    noise = np.maximum(1.4826 * np.median(np.abs(frames - middle), axis=0), 1)
    pedestal = Pedestal.from_mean_and_noise(middle, noise, parameters.n_samples)
    found = open_finder("cpu", parameters, archive.frame_shape, subject.pixel_mask).find(frames, pedestal)
    return found if len(found) else _noise(subject, float(noise.mean()))


def _noise(subject: Subject, sigma: float) -> Clusters:
    rng, (y, x) = np.random.default_rng(1), subject.archive.frame_shape
    kind = coordinate_dtype((y, x))
    return Clusters(
        frame_index=np.arange(WINDOWS_OF_NOISE, dtype=np.uint32),
        y=rng.integers(0, y, WINDOWS_OF_NOISE).astype(kind),
        x=rng.integers(0, x, WINDOWS_OF_NOISE).astype(kind),
        signal=rng.normal(0, sigma, (WINDOWS_OF_NOISE, *subject.parameters.cluster_size)).astype(np.float32),
        n_clusters=np.ones(WINDOWS_OF_NOISE, np.uint32),
    )


def _reading(subject: Subject, n_cores: int) -> Iterator[MeasuredCeiling]:
    archive = subject.archive
    files = archive.chunk_paths(0, _frames_measured(archive))
    where = storage_of(archive.address.path)
    for cold in (True, False):
        name = subject.read(cold=cold)
        what = f"the archive's files, from {where if cold else 'the page cache'}"
        try:
            one, all_ = (read_rate(files, threads, cold=cold) for threads in (1, n_cores))
        except StillCachedError as error:
            yield MeasuredCeiling(name, what, "B/s", missing=f"not measured: {error}")
        else:
            yield MeasuredCeiling(name, what, "B/s", one, all_, n_cores)


def _of_gpus(crew: Crew, on_step: Callable[[str], None]) -> Iterator[MeasuredCeiling]:
    """Those of the first GPU, measured by one of the crew: this process does not initialise CUDA."""
    try:
        gpus = usable_gpus()
    except NoGpuError as error:
        yield from (MeasuredCeiling(name, "", "B/s", missing=f"not measured: {error}") for name in GPU_CEILINGS)
        return
    for name in GPU_CEILINGS:
        on_step(name)
        work = GpuWork(name)
        yield MeasuredCeiling(name, WHAT[name], work.unit, one_core=crew.rate(work, 1), cores=len(gpus))
