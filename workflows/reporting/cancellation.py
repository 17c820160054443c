"""Why the pedestal is kept around its own mean: what float32 makes of a variance otherwise, computed here and now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from workflows.reporting.style import ACCENT, INK, STAGES, Paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMES, PIXELS, NOISE = 1000, 256, 5.0
MEANS = (10, 30, 100, 300, 1000, 2000, 4655, 10_000, 20_000, 50_000)


@dataclass(frozen=True)
class Cancellation:
    """Errors of a variance of 25 ADU², from a thousand frames, as a share of it.

    Args:
        means: ADU, (mean).
        raw: Median error of E[X²] − E[X]² in float32, (mean).
        centred: Median error with X0 taken off first, as the finder does, (mean).
        lost: Share of pixels whose raw variance is 0 or less, so that they fire in every frame, (mean).
    """

    means: npt.NDArray[np.float64]
    raw: npt.NDArray[np.float64]
    centred: npt.NDArray[np.float64]
    lost: npt.NDArray[np.float64]


@cache
def cancellation() -> Cancellation:
    """Sums of frame after frame in float32, as a running pedestal keeps them, against exact integers."""
    rng = np.random.default_rng(0)
    rows = [_errors(np.rint(rng.normal(mean, NOISE, (FRAMES, PIXELS))).astype(np.int64)) for mean in MEANS]
    raw, centred, lost = np.array(rows).T
    return Cancellation(np.array(MEANS, float), raw, centred, lost)


def _errors(frames: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    n = len(frames)
    x0 = (2 * frames.sum(0) + n) // (2 * n)
    exact = (n * (frames**2).sum(0) - frames.sum(0) ** 2) / n**2
    raw, centred = _variance(frames), _variance(frames - x0)
    return (
        float(np.median(np.abs(raw / exact - 1))),
        float(np.median(np.abs(centred / exact - 1))),
        float(np.mean(raw <= 0)),
    )


def _variance(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    narrow = values.astype(np.float32)
    first, second = (np.add.accumulate(sums, axis=0, dtype=np.float32)[-1] for sums in (narrow, narrow * narrow))
    inverse = np.float32(1 / len(values))
    mean = first * inverse
    variance: npt.NDArray[np.float32] = second * inverse - mean * mean
    return variance


def cancellation_chart(errors: Cancellation, paper: Paper) -> Figure:
    """The error over the pedestal's mean, log-log, with the mean of a real Mönch pedestal marked."""
    figure, axes = paper.figure(3.9)
    floor = 1e-8
    axes.plot(errors.means, np.maximum(errors.raw, floor), "o-", color=ACCENT, label="float32, raw moments")
    axes.plot(
        errors.means,
        np.maximum(errors.centred, floor),
        "s-",
        color=STAGES["find"],
        label="float32, around X0 (photonflow)",
    )
    axes.axvline(4655, color=INK, linewidth=0.8, linestyle=":")
    axes.text(4655, 1e-4, " a Mönch's\n 4 655 ADU", fontsize=8.5)
    axes.set(xscale="log", yscale="log", ylim=(floor, None))
    axes.set_xlabel(paper.wrapped(f"mean of the pedestal [ADU], noise {NOISE:g} ADU"))
    axes.set_ylabel("relative error of the variance")
    if paper.is_narrow:
        figure.legend(loc="outside lower center")
    else:
        axes.legend(loc="upper left")
    paper.entitle(axes, "Cancellation: float32 needs moments around the mean")
    return figure
