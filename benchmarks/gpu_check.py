"""Is the CUDA finder right and fast on this machine's GPU? ``python benchmarks/gpu_check.py``, in under four minutes.

Oracle cases and random ones bit for bit against the CPU finder; NVIDIA's compute-sanitizer, where it is; a whole run of
20 000 frames through ``process --gpus 1``, compared with the CPU's; the GPU's ceilings; and the ladder of
`benchmarks/gpu_ladder.py` with the share of the tallest bar that was reached. A table on the screen, JSON beside it.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_cases import Case, compile_for_cpu, oracle_cases, random_cases
from benchmarks.gpu_ladder import kernel_microseconds, run_rung, rungs
from benchmarks.gpu_outside import sanitized, whole_run
from benchmarks.gpu_precision import ARITHMETICS, counts_on_cpu, run_precision
from benchmarks.gpu_table import table
from finder import FinderParameters, Pedestal, open_finder, rounded
from finder.products import PRODUCTS, ProductCounter, ProductOptions
from frame_archive.simulation import SimulatedDetector
from gpu.device import Device, DeviceError
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings
from pipeline.ceilings.gpu import GPU_CEILINGS, GpuWork
from pipeline.ceilings.machine import cores

# What is left of four minutes goes to compute-sanitizer, which alone has no end of its own.
SECONDS_IN_ALL = 230.0
# float32 signal of the window, frame, y and x.
CLUSTER_BYTES = {3: 44, 9: 332}
COUNTED = ProductOptions(PRODUCTS)


@dataclass(frozen=True)
class Size:
    """How much is tried; the test of this program takes a little of everything.

    Args:
        frames: in memory, for the ladder.
        batch: frames of a batch.
        side: rows and columns of a frame.
        run_frames: of the whole run.
        oracle_cases: of the oracle's, the first so many; None: all.
        random_cases: of so many shapes, windows and kinds of frames.
        windows: sides of the ladders' windows.
        repeats: of each timing.
        streams: of the ladder.
        copies: bytes of a copy when ceilings are measured.
        kernel_repeats: chunks that the kernels are timed on.
        precision_frames: that the precision rungs are counted on.
        budget_seconds: what would begin later is left out, and the report says so.
    """

    frames: int = 12_000
    batch: int = 1_000
    side: int = 400
    run_frames: int = 20_000
    oracle_cases: int | None = None
    random_cases: int = 40
    windows: tuple[int, ...] = (3, 9)
    repeats: int = 5
    streams: int = 4
    copies: int = 64 << 20
    kernel_repeats: int = 50
    precision_frames: int = 200
    budget_seconds: float = 140.0


def check(
    device: Device, size: Size, say: Callable[[str], None], report: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Everything that needs no process of its own. The report; what is wrong is in `report["wrong"]`.

    Args:
        device: the GPU.
        size: how much is tried.
        say: told what begins.
        report: filled while it goes on, so that something is left of it where the GPU fails; None: a new one.

    Raises:
        DeviceError: the GPU failed at what was said last.
    """
    began = time.perf_counter()
    report = {} if report is None else report
    report |= {
        "device": device.name,
        "host": platform.node(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": asdict(size),
        "wrong": [],
        "left_out": [],
    }
    say("oracle cases")
    report["oracle_cases"] = _compare(report, islice(oracle_cases(), size.oracle_cases), device)
    say("random cases")
    report["random_cases"] = _compare(report, random_cases(size.random_cases), device)
    say("ceilings")
    report["ceilings"] = {kind: _rate(GpuWork(kind, nbytes=size.copies), device, size) for kind in GPU_CEILINGS}
    frames, darks = _frames(size)
    for window in size.windows:
        say(f"the ladder with {window}×{window}")
        report[f"ladder_{window}x{window}"] = _ladder(device, size, frames, darks, window, report, began)
    if time.perf_counter() - began < size.budget_seconds:
        say("precision")
        report["precision"] = _precision(device, size, frames[: size.precision_frames], darks, report)
    else:
        report["left_out"].append("precision")
    report["seconds"] = time.perf_counter() - began
    return report


def _compare(report: dict[str, Any], cases: Iterable[Case], device: Device) -> int:
    count = 0
    for name, parameters, mask, pedestal, frames in cases:
        report["case"], count = name, count + 1
        expected = open_finder("cpu", parameters, frames.shape[1:], mask).find(frames, pedestal)
        for settings in (GpuSettings(), GpuSettings(n_streams=1, chunk_frames=6, room=1e-6)):
            found = CudaFinder(parameters, frames.shape[1:], mask, device=device, settings=settings).find(
                frames, pedestal
            )
            for field in ("frame_index", "y", "x", "signal", "n_clusters"):
                if getattr(found, field).tobytes() != getattr(expected, field).tobytes():
                    report["wrong"].append(f"{name}: {field} differs from the CPU's with {settings}")
            for plane in ("s1", "s2"):
                if getattr(found.pedestal, plane).tobytes() != getattr(expected.pedestal, plane).tobytes():
                    report["wrong"].append(f"{name}: the pedestal's {plane} differs from the CPU's with {settings}")
            chain = CudaFinder(
                parameters, frames.shape[1:], mask, device=device, settings=settings, counts=COUNTED
            ).chain(pedestal)
            same_counts = np.array_equal(chain.count(frames), expected.n_clusters)
            counter = ProductCounter(COUNTED, frames.shape[1:], parameters.cluster_size)
            counter.add(expected.y, expected.x, rounded(expected.signal, np.int32))
            if not same_counts or not all(map(np.array_equal, chain.products.arrays, counter.products.arrays)):
                report["wrong"].append(f"{name}: what is counted differs from the CPU's with {settings}")
    return count


def _rate(work: GpuWork, device: Device, size: Size) -> dict[str, Any]:
    step = work.on(device) if size.side > 100 else GpuWork(work.kind, size.copies, 2, 1, 4).on(device)
    step()
    rates = []
    for _ in range(max(size.repeats, 2)):
        began = time.perf_counter()
        rates.append(step().amount / (time.perf_counter() - began))
    return {"rate": statistics.median(rates), "lowest": min(rates), "highest": max(rates), "unit": work.unit}


def _frames(size: Size) -> tuple[Any, Any]:
    """Frames of a simulated detector with about 2 400 clusters each at 400×400, made in turn of a few hundred."""
    detector = SimulatedDetector(shape=(size.side, size.side), seed=3)
    distinct = min(size.frames, 400)
    frames = np.empty((size.frames, size.side, size.side), np.uint16)
    for number in range(distinct):
        detector.frame(number, distinct, frames[number])
    for first in range(distinct, size.frames, distinct):
        frames[first : first + distinct] = frames[: min(distinct, size.frames - first)]
    darks = np.empty((200, size.side, size.side), np.uint16)
    for number in range(len(darks)):
        detector.dark_frame(number, darks[number])
    return frames, darks


def _ladder(
    device: Device, size: Size, frames: Any, darks: Any, window: int, report: dict[str, Any], began: float
) -> dict[str, Any]:
    parameters = FinderParameters(cluster_size=(window, window))
    pedestal = Pedestal.from_dark(darks, n_samples=1000)
    batches = [frames[first : first + size.batch] for first in range(0, len(frames), size.batch)]
    steps = rungs(size.streams) if size.side > 100 else rungs(2, chunk_frames=4)
    results = []
    # Of the larger window only the ends: it is there to be compared with the smaller one.
    for rung in steps if window == 3 else steps[-2:]:
        if time.perf_counter() - began > size.budget_seconds:
            report["left_out"].append(f"{rung.name} ({rung.what}) with {window}×{window}")
            continue
        results.append(run_rung(rung, device, parameters, pedestal, batches, size.repeats))
    kernel = kernel_microseconds(device, parameters, pedestal, frames, GpuSettings(), size.kernel_repeats)
    if not results:
        return {"kernel_microseconds": kernel, "rungs": []}
    if len({result.clusters for result in results}) > 1:
        report["wrong"].append(f"the rungs with {window}×{window} found different numbers of clusters")
    clusters = results[-1].clusters / len(frames)
    bars = {
        "H2D": 1e6 * frames[0].nbytes / report["ceilings"]["H2D, pinned"]["rate"],
        "kernels": kernel,
        "D2H": 1e6 * clusters * CLUSTER_BYTES[window] / report["ceilings"]["D2H, pinned"]["rate"],
    }
    tallest = max(bars, key=lambda name: bars[name])
    return {
        "kernel_microseconds": kernel,
        "clusters_a_frame": clusters,
        "floor_microseconds": bars,
        "tallest": tallest,
        "rungs": [
            asdict(result) | {"share_of_tallest": bars[tallest] / result.microseconds_a_frame} for result in results
        ],
    }


def _precision(device: Device, size: Size, frames: Any, darks: Any, report: dict[str, Any]) -> list[dict[str, Any]]:
    results = [
        run_precision(arithmetic, device, frames, darks, repeats=max(size.repeats, 2), times=size.kernel_repeats)
        for arithmetic in ARITHMETICS
    ]
    expected = counts_on_cpu(frames[: results[0].frames], darks, 5.0, 1000)
    for result in results:
        if result.clusters != expected[result.name]:
            report["wrong"].append(
                f"{result.name}: {result.clusters} clusters, and NumPy finds {expected[result.name]} in that arithmetic"
            )
    return [asdict(result) for result in results]


def main() -> int:
    """Check, print, and write the JSON; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("gpu_check.json"), help="where the report goes")
    parser.add_argument("--few-cases", action="store_true", help="a few cases alone, for compute-sanitizer")
    options = parser.parse_args()
    from gpu.cupy_device import open_device

    device = open_device()

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    if options.few_cases:
        wrong: dict[str, Any] = {"wrong": []}
        _compare(wrong, random_cases(4), device)
        return 1 if wrong["wrong"] else 0
    began, size = time.perf_counter(), Size()
    say("compiling the CPU finder, to compare with")
    compile_for_cpu(chain(oracle_cases(), random_cases(size.random_cases)), cores())
    report: dict[str, Any] = {}
    try:
        check(device, size, say, report)
    except DeviceError as error:
        report["wrong"].append(f"the GPU failed, last case {report.get('case')}: {error}")
        options.json.write_text(json.dumps(report, indent=2))
        print("\n".join(f"WRONG {what}" for what in report["wrong"]))
        return 1
    report["run"] = whole_run(size.run_frames, say)
    report["sanitizer"] = sanitized(say, (SECONDS_IN_ALL - (time.perf_counter() - began)) / 2)
    report["seconds"] = time.perf_counter() - began
    if not report["run"]["same_digest"]:
        report["wrong"].append("process --gpus 1 and the CPU give different digests")
    options.json.write_text(json.dumps(report, indent=2))
    print(table(report))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"gpu_check: {error}")
