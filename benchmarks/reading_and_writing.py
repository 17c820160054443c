"""What reading frames and writing clusters cost a core, codec by codec: ``python -m benchmarks.reading_and_writing``.

Frames are those of the race, simulated from a seed; signals are those of the clusters found in them. The candidates
take turns, none is timed on its first run, and each is given by the median of its processor times and of its times on
the clock. zarrs and pcodec take part where they are installed. The JSON goes to
`benchmarks/results/reading_and_writing.json`, or where it is told.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numcodecs.blosc as blosc
import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

from benchmarks.race.subjects import MOENCH, simulated
from finder import FinderParameters, open_finder
from finder.rounding import rounded
from frame_archive import FrameArchive, create_archive
from pipeline.ceilings.machine import machine

FRAMES, CHUNK, THREADS, REPEATS = 240, 20, 2, 7
ROWS = 262_144  # Clusters in a chunk of the dataset.

PIPELINES = ("zarr.core.codec_pipeline.BatchedCodecPipeline", "zarrs.ZarrsCodecPipeline")

Work = Callable[[], object]
Entry = dict[str, Any]


def turns(work: dict[str, Work], repeats: int) -> dict[str, tuple[float, float]]:
    """Median processor time and median time on the clock of each candidate, s."""
    laps: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for repeat in range(repeats + 1):
        for name, run in work.items():
            begin, core = time.perf_counter(), time.process_time()
            run()
            if repeat:
                laps[name].append((time.process_time() - core, time.perf_counter() - begin))
    return {
        name: (statistics.median(c for c, _ in of), statistics.median(w for _, w in of)) for name, of in laps.items()
    }


def reading(frames: npt.NDArray[Any], folder: Path, repeats: int) -> list[Entry]:
    """µs a frame of each way to read an archive of these frames."""
    ways: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    pool = ThreadPoolExecutor(THREADS)
    out = np.empty((THREADS, CHUNK, *frames.shape[1:]), frames.dtype)

    def in_chunks(read: Callable[[int, npt.NDArray[Any]], object], threads: int) -> Work:
        def part(thread: int) -> None:
            for first in range(thread * CHUNK, len(frames), threads * CHUNK):
                read(first, out[thread])

        return lambda: list(pool.map(part, range(threads)))

    writer = create_archive(folder / "archive.zarr", frames.shape, frames.dtype, frames_per_chunk=CHUNK)
    writer.write_frames(0, frames)
    archive = FrameArchive.open(str(folder / "archive.zarr"))
    for threads in (1, THREADS):
        name = f"lz4 bitshuffle, own loop, threads {threads}"
        ways[name] = in_chunks(lambda first, target: archive.read(first, first + CHUNK, target), threads)
        sizes[name] = _stored(folder / "archive.zarr" / "frames")
    codecs = {
        "lz4 bitshuffle": (BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=2), Crc32cCodec()),
        "zstd-1 bitshuffle": (BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle", typesize=2), Crc32cCodec()),
        "uncompressed": (),
    }
    for codec, compressors in codecs.items():
        array = zarr.create_array(
            str(folder / f"{codec}.zarr"), shape=frames.shape, chunks=(CHUNK, *frames.shape[1:]), dtype=frames.dtype,
            serializer=BytesCodec(), compressors=compressors,
        )  # fmt: skip
        array[:] = frames
        for pipeline in PIPELINES if find_spec("zarrs") else PIPELINES[:1]:
            with zarr.config.set({"codec_pipeline.path": pipeline}):
                opened = zarr.open_array(str(folder / f"{codec}.zarr"), mode="r")
            name = f"{codec}, zarr with {pipeline.rpartition('.')[2]}"
            ways[name] = in_chunks(_by_zarr(opened), 1)
            sizes[name] = _stored(folder / f"{codec}.zarr")
    for codec, decoded in (_pcodec(frames, folder) if find_spec("pcodec") else {}).items():
        ways[codec] = in_chunks(decoded, 1)
        sizes[codec] = _stored(folder / codec)
    return _entries(turns(ways, repeats), sizes, len(frames), frames.nbytes, "us_per_frame")


def _pcodec(frames: npt.NDArray[Any], folder: Path) -> dict[str, Callable[[int, npt.NDArray[Any]], object]]:
    """Ways to read chunks that pcodec has packed, a file each."""
    from pcodec import ChunkConfig, standalone

    ways: dict[str, Callable[[int, npt.NDArray[Any]], object]] = {}
    for level in (4, 8):
        place = folder / f"pcodec {level}, own loop"
        place.mkdir()
        for first in range(0, len(frames), CHUNK):
            packed = standalone.simple_compress(
                frames[first : first + CHUNK].reshape(-1), ChunkConfig(compression_level=level)
            )
            (place / str(first)).write_bytes(packed)

        def read(first: int, target: npt.NDArray[Any], place: Path = place) -> object:
            return standalone.simple_decompress_into((place / str(first)).read_bytes(), target.reshape(-1))

        ways[place.name] = read
    return ways


def writing(signal: npt.NDArray[Any], folder: Path, repeats: int) -> list[Entry]:
    """µs a thousand clusters of each way to encode and write a chunk of signals."""
    ways: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    place = folder / "chunk"
    shuffles = {"bitshuffle": blosc.BITSHUFFLE, "shuffle": blosc.SHUFFLE}
    for dtype in (np.int32, np.int16):
        values = np.ascontiguousarray(signal, dtype)
        for codec, level, shuffle in (
            ("lz4", 1, "bitshuffle"), ("lz4", 5, "bitshuffle"), ("lz4", 9, "bitshuffle"), ("lz4", 5, "shuffle"),
            ("zstd", 1, "bitshuffle"), ("zstd", 1, "shuffle"), ("none", 0, ""),
        ):  # fmt: skip
            name = f"{np.dtype(dtype).name} {codec}-{level} {shuffle}".rstrip()

            def run(
                codec: str = codec, level: int = level, shuffle: str = shuffle, values: Any = values, name: str = name
            ) -> None:
                data = (
                    values.tobytes()
                    if codec == "none"
                    else blosc.compress(values, codec.encode(), level, shuffles[shuffle])
                )
                place.write_bytes(data)
                sizes[name] = len(data)

            ways[name] = run
    return _entries(turns(ways, repeats), sizes, len(signal) / 1000, signal.size * 4, "us_per_1000_clusters")


def _entries(
    times: dict[str, tuple[float, float]], sizes: dict[str, int], n: float, nbytes: int, unit: str
) -> list[Entry]:
    return [
        {"way": name, f"core_{unit}": core / n * 1e6, unit: wall / n * 1e6, "ratio": nbytes / sizes[name]}
        for name, (core, wall) in times.items()
    ]


def _by_zarr(array: Any) -> Callable[[int, npt.NDArray[Any]], object]:
    return lambda first, target: np.copyto(target, array[first : first + CHUNK])


def _stored(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Measure, and write the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).parent / "results/reading_and_writing.json")
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    blosc.set_nthreads(1)
    with tempfile.TemporaryDirectory(prefix="photonflow-") as name:
        folder = Path(name)
        subject = simulated(folder, "frames", MOENCH, given.frames)
        frames = np.ascontiguousarray(subject.load())
        found = open_finder("cpu", FinderParameters(), frames.shape[1:]).find(frames, subject.pedestal)
        signal = rounded(found.signal, np.int32)[:ROWS]
        result = {
            "machine": machine(),
            "load": os.getloadavg()[0],
            "frames": given.frames,
            "clusters": len(signal),
            "reading": reading(frames, folder, given.repeats),
            "writing": writing(signal, folder, given.repeats),
        }
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
