"""What `--recentre K` does to the pedestal and to the clusters, on simulated frames whose truth is known.

    python -m benchmarks.recentre_study          # a minute or two
    python -m benchmarks.recentre_study bias     # one part of it: bias, drift, short_batches, step_within, ...

Writes `benchmarks/results/recentre_*.json`, from which the tables in docs/pedestal.md are taken. Everything is
seeded; frames are 128×128 pixels, and 265 photons a frame (the simulation's own density) are called the rate 1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from finder import FinderParameters, Pedestal, open_finder, recentred
from frame_archive.disturbances import Disturbance
from frame_archive.simulation import K_ALPHA_KEV, Photons, SimulatedDetector

RESULTS = Path(__file__).parent / "results"
SHAPE = (128, 128)
DETECTOR = SimulatedDetector(shape=SHAPE, seed=10)
N_DARKS, N_FRAMES = 1000, 200
K, CLIP, ROUNDS = 128, 2.0, 3
# So far apart that neither window sees the other photon's charge.
APART = 5


def at(rate: float = 1.0, **disturbance: Any) -> SimulatedDetector:
    """The detector at a rate, disturbed."""
    photons = rate * DETECTOR.mean_photons
    return replace(DETECTOR, photons_per_frame=photons, disturbance=Disturbance(**disturbance))


@dataclass(frozen=True)
class Truth:
    """The photons of a frame, and which of them are Kα and alone."""

    photons: Photons
    alone: np.ndarray


@lru_cache(maxsize=2)
def exposed(detector: SimulatedDetector, n_frames: int) -> tuple[np.ndarray, list[Truth]]:
    """The first frames (frame, y, x) and their photons."""
    frames = np.empty((n_frames, *SHAPE), np.uint16)
    photons = [detector.frame(i, n_frames, frames[i])[1] for i in range(n_frames)]
    return frames, [Truth(each, _isolated(each)) for each in photons]


@lru_cache(maxsize=1)
def trained() -> Pedestal:
    """Of darks taken before anything moved."""
    return Pedestal.from_dark(np.stack([DETECTOR.dark_frame(i) for i in range(N_DARKS)]))


def in_a_corner(frames: np.ndarray, per_frame: int = 1000, side: int = 32) -> np.ndarray:
    """The frames with more photons in a corner of `side` × `side` pixels: whole photons, each shared by two pixels."""
    lit, rng = frames.astype(np.int64), np.random.default_rng(1)
    for frame in lit:
        y, x = rng.integers(0, side, per_frame), rng.integers(0, side, per_frame)
        share = rng.uniform(0, 1, per_frame)
        np.add.at(frame, (y, x), np.rint(805 * share).astype(np.int64))
        np.add.at(frame, (y, np.minimum(x + 1, side - 1)), np.rint(805 * (1 - share)).astype(np.int64))
    return np.minimum(lit, DETECTOR.adc_max).astype(np.uint16)


def bias(pedestal: Pedestal, widths: float, region: Any = np.s_[:]) -> dict[str, float]:
    """How far a pedestal is from the truth, in noise widths: the median over good pixels, and the scatter about it."""
    maps = DETECTOR.maps
    off = (pedestal.mean - maps.pedestal - widths * maps.noise)[region][maps.mask[region] == 0]
    off = off / maps.noise[region][maps.mask[region] == 0]
    middle = float(np.median(off))
    scatter = float(1.4826 * np.median(np.abs(off - middle)))
    return {"median": middle, "scatter": scatter, "share_beyond_1": float((np.abs(off) > 1).mean())}


def biases(ks: list[int], clips: list[float], rounds: list[int]) -> Iterator[dict[str, Any]]:
    """The recentred mean against the truth."""
    n = max(ks)
    corner = np.s_[:32, :32]
    scenes: list[tuple[str, float, float, Any]] = [
        *((f"rate {rate:g}", rate, widths, np.s_[:]) for rate in (1, 10) for widths in (0, 1, 3)),
        ("1000 photons in a corner", 1, 0, corner),
        ("1000 photons in a corner", 1, 3, corner),
    ]
    for name, rate, widths, region in scenes:
        frames, _ = exposed(at(rate, step=widths), n)
        if region is corner:
            frames = in_a_corner(frames)
        # One thing at a time.
        choices = {(k, CLIP, ROUNDS) for k in ks} | {(K, c, ROUNDS) for c in clips} | {(K, CLIP, r) for r in rounds}
        for k, clip, n_rounds in sorted(choices):
            moved = recentred(trained(), frames[:k], DETECTOR.maps.mask, clip=clip, rounds=n_rounds)
            yield {"scene": name, "moved": widths, "K": k, "clip": clip, "rounds": n_rounds} | bias(
                moved, widths, region
            )


def found(
    frames: np.ndarray, pedestal: Pedestal, truth: list[Truth], window: tuple[int, int]
) -> dict[str, float | None]:
    """Clusters a frame, efficiency and purity, and where the Kα sum of isolated photons stands."""
    batch = open_finder("cpu", FinderParameters(cluster_size=window), SHAPE, DETECTOR.maps.mask).find(frames, pedestal)
    return measures(batch, truth)


def measures(batch: Any, truth: list[Truth]) -> dict[str, float | None]:
    """What clusters are worth against the truth."""
    rows, columns = SHAPE
    photons = [each.photons for each in truth]
    frame = np.repeat(np.arange(len(photons)), [len(each) for each in photons])
    x, y = (np.concatenate([getattr(each, name) for each in photons]) for name in ("x", "y"))
    alone = np.concatenate([each.alone for each in truth])
    column, row = np.rint(x).astype(np.int64), np.rint(y).astype(np.int64)

    def code(t: np.ndarray, j: np.ndarray, i: np.ndarray) -> np.ndarray:
        return (t.astype(np.int64) * (rows + 2) + j + 1) * (columns + 2) + i + 1

    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    clusters = code(batch.frame_index, batch.y.astype(np.int64), batch.x.astype(np.int64))
    is_hit = np.zeros(int(alone.sum()), bool)
    of_photon = np.zeros(len(clusters), bool)
    known = code(frame, row, column)
    for dy, dx in steps:
        is_hit |= np.isin(code(frame[alone], row[alone] + dy, column[alone] + dx), clusters)
        of_photon |= np.isin(clusters + dy * (columns + 2) + dx, known)
    isolated = np.zeros(len(clusters), bool)
    for dy, dx in steps:
        isolated |= np.isin(clusters + dy * (columns + 2) + dx, known[alone])
    sums = batch.signal.sum((1, 2))[isolated]
    return {
        "clusters_a_frame": len(clusters) / len(photons),
        "efficiency": float(is_hit.mean()) if len(is_hit) else None,
        "purity": float(of_photon.mean()) if len(clusters) else None,
        "k_alpha_ADU": float(np.median(sums)) if len(sums) else None,
    }


def _isolated(photons: Photons) -> np.ndarray:
    """Kα photons with no other near, nor an edge, nor a masked pixel."""
    at_yx = np.column_stack([photons.y, photons.x])
    if len(at_yx) > 600:  # So crowded that hardly one is alone.
        return np.zeros(len(at_yx), bool)
    others = np.abs(at_yx[:, None] - at_yx[None]).max(-1)
    np.fill_diagonal(others, np.inf)
    masked = np.argwhere(DETECTOR.maps.mask != 0)
    inside = ((at_yx > APART) & (at_yx < np.array(SHAPE) - APART)).all(1)
    away = np.abs(at_yx[:, None] - masked[None]).max(-1).min(1) > APART if len(masked) else True
    is_alpha = photons.energy_keV == np.float32(K_ALPHA_KEV)
    return (others.min(1, initial=np.inf) > APART) & inside & away & is_alpha


def drifts(n_frames: int) -> Iterator[dict[str, Any]]:
    """Clusters with a pedestal that has moved before the batch, with and without recentring."""
    for rate in (1, 10):
        for widths in (0, 1, 3):
            frames, photons = exposed(at(rate, step=widths), n_frames)
            for window in ((3, 3), (9, 9)):
                for k in (0, 32, K) if window == (3, 3) else (0, K):
                    pedestal = recentred(trained(), frames[:k], DETECTOR.maps.mask) if k else trained()
                    yield {"rate": rate, "moved": widths, "window": f"{window[0]}x{window[1]}", "K": k} | found(
                        frames, pedestal, photons, window
                    )


def short_batches() -> Iterator[dict[str, Any]]:
    """Batches of fewer frames than K: what is left of their photons."""
    frames, photons = exposed(at(), 60)
    for n in (1, 2, 3, 5, 10, 20, 50):
        parts = []
        for start in range(0, min(n * max(1, 60 // n), 60), n):
            part = slice(start, start + n)
            moved = recentred(trained(), frames[part], DETECTOR.maps.mask)
            parts.append(found(frames[part], moved, photons[part], (3, 3)))
        yield {"frames": n, "batches": len(parts)} | {name: _mean([part[name] for part in parts]) for name in parts[0]}


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def steps_within(n_frames: int) -> Iterator[dict[str, Any]]:
    """A step of 3 noise widths inside the batch: before the recentring's last frame, and after it."""
    for step_frame in (K // 4, 3 * K // 4, n_frames // 2):
        frames, photons = exposed(at(step=3.0, step_frame=step_frame), n_frames)
        for k in (0, K):
            pedestal = recentred(trained(), frames[:k], DETECTOR.maps.mask) if k else trained()
            for name, part in (("before", slice(0, step_frame)), ("after", slice(step_frame, n_frames))):
                batch = open_finder("cpu", FinderParameters(), SHAPE, DETECTOR.maps.mask).find(frames, pedestal)
                inside = (batch.frame_index >= part.start) & (batch.frame_index < part.stop)
                chosen = _Chosen(batch, inside, part.start)
                yield {"step_frame": step_frame, "K": k, "frames": name} | measures(chosen, photons[part])


class _Chosen:
    """Some clusters of a batch, whose frames count from `first`."""

    def __init__(self, batch: Any, chosen: np.ndarray, first: int) -> None:
        self.frame_index = batch.frame_index[chosen] - np.uint32(first)
        self.y, self.x, self.signal = batch.y[chosen], batch.x[chosen], batch.signal[chosen]


def changed_pixels(n_frames: int) -> Iterator[dict[str, Any]]:
    """Hot, blinking and saturated pixels that no mask knows of."""
    detector = at(hot_pixels=40, blinking_pixels=40)
    frames, photons = exposed(detector, n_frames)
    frames = frames.copy()
    frames[:, 60, 20:60] = detector.adc_max
    for k in (0, K):
        pedestal = recentred(trained(), frames[:k], DETECTOR.maps.mask) if k else trained()
        yield {"K": k} | found(frames, pedestal, photons, (3, 3))


def about() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "shape": SHAPE,
        "darks": N_DARKS,
        "frames": N_FRAMES,
        "clip": CLIP,
        "rounds": ROUNDS,
        "seed": DETECTOR.seed,
        "noise_ADU": DETECTOR.noise * DETECTOR.gain,
        "k_alpha_ADU": K_ALPHA_KEV * DETECTOR.gain,
    }


PARTS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "bias": lambda: biases([32, 64, K, 256, 500], [1.5, 2.0, 2.5, 3.0], [1, 3, 5]),
    "drift": lambda: drifts(N_FRAMES),
    "short_batches": short_batches,
    "step_within": lambda: steps_within(2 * N_FRAMES),
    "changed_pixels": lambda: changed_pixels(N_FRAMES),
}


def main() -> None:
    """Run the parts that are named, or all, and write what they find beside what is there already."""
    for name in sys.argv[1:] or PARTS:
        begin = time.perf_counter()
        found_here = list(PARTS[name]())
        RESULTS.mkdir(exist_ok=True)
        document = {"part": name, "about": about(), "results": found_here}
        (RESULTS / f"recentre_{name}.json").write_text(json.dumps(document, indent=1) + "\n")
        sys.stdout.write(f"{name}: {time.perf_counter() - begin:.0f} s\n")


if __name__ == "__main__":
    main()
