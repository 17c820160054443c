"""aare's cluster finder, in a process of its own: it may need another Python than photonflow has.

Needs nothing but aare and NumPy. Reads one JSON request a line, and answers each with one line:

    {"frames": "f.npy", "dark": "d.npy", "window": [3, 3], "n_sigma": 5, "n_frames": 300, "threads": 1, "save": null}
    {"seconds": 0.24, "core_seconds": 0.24, "faults": 12, "clusters": 721503}

A finder is trained anew for each request, untimed. With `threads` above 1 it is `ClusterFinderMT` with that many.
"""

import functools
import inspect
import json
import os
import resource
import sys
import time
from importlib import metadata
from typing import Any

import aare
import numpy as np


def made(kind: str, shape: tuple[int, ...], request: dict[str, Any], n_dark: int, **more: Any) -> Any:
    """A finder, told to be ready after as many darks as there are, by those that can be told."""
    factory = getattr(aare, kind)
    more |= {"cluster_size": tuple(request["window"]), "n_sigma": request["n_sigma"], "capacity": 10_000}
    if "min_pedestal_samples" in inspect.signature(factory).parameters:
        more["min_pedestal_samples"] = min(n_dark, 1000)
    return factory(shape, dtype=np.int32, **more)


def one_thread(frames: Any, dark: Any, request: dict[str, Any]) -> tuple[dict[str, float], list[Any]]:
    """Find on one thread: seconds, page faults, and what was found in each frame."""
    finder = made("ClusterFinder", frames.shape[1:], request, len(dark))
    for frame in dark:
        finder.push_pedestal_frame(frame)
    found, begun = [], now()
    for number, frame in enumerate(frames):
        finder.find_clusters(frame, number)
        found.append(finder.steal_clusters())
    return since(begun), found


def many_threads(frames: Any, dark: Any, request: dict[str, Any]) -> tuple[dict[str, float], list[Any]]:
    """The same with `ClusterFinderMT`; the time ends when all frames are done and collected."""
    finder = made("ClusterFinderMT", frames.shape[1:], request, len(dark), n_threads=request["threads"])
    collector = aare.ClusterCollector(finder)
    for frame in dark:
        finder.push_pedestal_frame(frame)
    finder.sync()  # The darks are in.
    begun = now()
    for number, frame in enumerate(frames):
        finder.find_clusters(frame, number)
    finder.stop()
    collector.stop()
    return since(begun), [clusters for clusters in collector.steal_clusters() if clusters.size]


@functools.cache
def loaded(path: str) -> Any:
    """An array in memory, read once."""
    return np.load(path)


def now() -> tuple[float, float, int]:
    """Seconds, seconds of processor time and minor page faults of this process."""
    return time.perf_counter(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def since(begun: tuple[float, float, int]) -> dict[str, float]:
    """What passed since then, by name."""
    passed = (after - before for before, after in zip(begun, now(), strict=True))
    return dict(zip(("seconds", "core_seconds", "faults"), passed, strict=True))


def positions(found: list[Any]) -> Any:
    """(frame, y, x) of all clusters, int32."""
    parts = [np.empty((0, 3), np.int32)]
    for clusters in found:
        values = np.array(clusters)
        frame = np.full(len(values), clusters.frame_number)
        parts.append(np.stack([frame, values["y"], values["x"]], axis=1).astype(np.int32))
    return np.concatenate(parts)


def main() -> None:
    """Answer until there is no further request."""
    # aare itself prints on stdout, when its collector starts and stops.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        request = json.loads(line)
        if "frames" not in request:
            answer: dict[str, Any] = {
                "aare": metadata.version("aare"),
                "numpy": np.__version__,
                "python": sys.version.split()[0],
            }
        else:
            frames, dark = loaded(request["frames"])[: request["n_frames"]], loaded(request["dark"])
            work = one_thread if request["threads"] == 1 else many_threads
            passed, found = work(frames, dark, request)
            if request.get("save"):
                np.save(request["save"], positions(found))
            answer = passed | {"clusters": sum(clusters.size for clusters in found)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
