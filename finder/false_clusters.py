"""How many clusters noise alone makes: what to expect at a threshold, a window and a number of darks.

For Gaussian noise that is alike in all pixels of a window and independent from pixel to pixel. A pixel's threshold is
a = n_sigma · s/σ in true noise widths, s being the noise as the darks gave it: s² is σ²·χ²(N − 1)/N, and the mean has
an error of σ/√N. A cluster is a pixel that is its window's maximum M and whose M or whose window's sum T is above the
threshold. All n pixels present in a window are as likely to be the maximum, so that

    p(a) = P(M > a, or T > √area · a) / n = (1 − P(all ≤ a, and T ≤ √area · a)) / n

in which M alone gives (1 − Φ(a)ⁿ) / n; the sum's part is an n-fold convolution of the normal density cut off at a. The
expectation is the mean of p over the distribution of s: for few darks its tails are those of Student's t. With running
noise s² follows the frames (see `_squared_noise`), so that the first frames of a batch have the most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from finder.parameters import FinderParameters

_STEP = 0.05
_WIDEST = 12.0
# Thresholds, in true noise widths, at which p(a) is computed; in between its logarithm is interpolated.
_THRESHOLDS = np.concatenate([np.arange(0, 12, 0.1), np.arange(12, 37.5, 0.5)])
_QUANTILES = 300
_TIMES = 40
_WINDOWS = 4
# After so many memories of the pedestal nothing changes any more.
_SETTLED = 20.0
# Gauss–Hermite, three points: how the running noise scatters about its own mean.
_NODES, _WEIGHTS = np.array([-math.sqrt(3), 0, math.sqrt(3)]), np.array([1, 4, 1]) / 6

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FalseClusters:
    """Clusters that noise alone is expected to make in a frame.

    Attributes:
        first_frame: in the first frame of a batch.
        a_frame: in a frame, as the mean over the batch.
    """

    first_frame: float
    a_frame: float


def expected_false_clusters(
    parameters: FinderParameters,
    frame_shape: tuple[int, int],
    n_darks: int | None,
    masked: npt.NDArray[np.bool_] | None = None,
    n_frames: int = 2000,
    tracking: bool = True,
) -> FalseClusters:
    """What to expect of frames without photons.

    Held within 5 % in simulations of 2 to 200 darks, n_sigma 2 to 5, windows of 3×3 to 9×9 and noise of 1 to 18 ADU
    (with a memory of 20 frames within 8 %). Noise of 0.5 ADU is no longer Gaussian once it is rounded to whole ADU: 1.6
    times as many. Common mode, tails and hot pixels of a real detector come on top.

    Args:
        parameters: the finder's.
        frame_shape: (y, x).
        n_darks: frames that the pedestal was trained on; None where mean and noise are known exactly.
        masked: bool (y, x), True where masked.
        n_frames: frames of a batch, each of which starts from the trained pedestal.
        tracking: whether the pedestal follows the frames.

    Raises:
        ValueError: fewer than two darks.
    """
    if n_darks is not None and n_darks < 2:
        raise ValueError(f"{n_darks} dark frames say nothing of the noise: it takes at least 2")
    area = parameters.cluster_size[0] * parameters.cluster_size[1]
    squared, weight = _trained_squared_noise(n_darks, parameters.n_sigma)
    memory = float(parameters.n_samples)
    last = max(n_frames - 1, 0) / memory if tracking else 0.0
    times = _times(min(last, _SETTLED))
    if parameters.noise == "running" and tracking:
        squared_at = _squared_noise(squared, times, parameters.n_sigma, area)
    else:
        squared_at = np.broadcast_to(squared, (len(times), len(squared)))
    # The mean's own error, and of the running noise its scatter about what it follows: both of a memory of n_samples.
    forgotten = 1 - np.exp(-2 * times)
    mean_error = (0 if n_darks is None else 1 / n_darks) * (1 - forgotten) + forgotten / (2 * memory)
    scatter = np.sqrt(forgotten / memory) if parameters.noise == "running" else np.zeros_like(times)
    expected = np.zeros(len(times))
    for n_pixels, logarithm in _by_window(_windows(frame_shape, parameters.cluster_size, masked), area):
        for node, share in zip(_NODES, _WEIGHTS, strict=True):
            spread = np.maximum(squared_at * (1 + node * scatter[:, np.newaxis]), 0)
            threshold = parameters.n_sigma * np.sqrt(spread / (1 + mean_error[:, np.newaxis]))
            probability = np.exp(np.interp(threshold, _THRESHOLDS, logarithm))
            expected += n_pixels * share * (probability @ weight)
    total = float(np.trapezoid(expected, times)) + (last - times[-1]) * float(expected[-1])
    mean = float(total / last) if last > 0 else float(expected[0])
    return FalseClusters(first_frame=float(expected[0]), a_frame=mean)


def _windows(
    shape: tuple[int, int], cluster_size: tuple[int, int], masked: npt.NDArray[np.bool_] | None
) -> dict[int, int]:
    """How many pixels have how many present pixels in their window, themselves included."""
    present = np.ones(shape, np.int64) if masked is None else (~masked).astype(np.int64)
    rows, columns = cluster_size
    sums = np.zeros((shape[0] + rows, shape[1] + columns), np.int64)
    inner = np.pad(present, ((rows // 2,) * 2, (columns // 2,) * 2))
    sums[1:, 1:] = inner.cumsum(0).cumsum(1)
    around = sums[rows:, columns:] - sums[:-rows, columns:] - sums[rows:, :-columns] + sums[:-rows, :-columns]
    counts, pixels = np.unique(around[present == 1], return_counts=True)
    return dict(zip(counts.tolist(), pixels.tolist(), strict=True))


def _by_window(windows: dict[int, int], area: int) -> Iterator[tuple[int, Float64]]:
    """Pixels and their log p(a), for each number of pixels present: a few are computed, the others interpolated."""
    counts = sorted(windows)
    if not counts:
        return
    computed = np.unique(np.linspace(counts[0], counts[-1], _WINDOWS).round().astype(int))
    logarithms = [np.log(_probabilities(int(n), area)) for n in computed]
    for count in counts:
        right = max(1, int(np.searchsorted(computed, count)))
        if len(computed) == 1:
            yield windows[count], logarithms[0]
            continue
        left = right - 1
        share = (count - computed[left]) / (computed[right] - computed[left])
        yield windows[count], (1 - share) * logarithms[left] + share * logarithms[right]


def _trained_squared_noise(n_darks: int | None, n_sigma: float) -> tuple[Float64, Float64]:
    """Values of s²/σ² as N darks give it, χ²(N − 1)/N, and their probabilities.

    They reach from where the most false clusters come from, far below the mean, to where none do.
    """
    if n_darks is None:
        return np.ones(1), np.ones(1)
    freedom = n_darks - 1
    width = math.sqrt(2 / freedom)
    lowest = math.log(freedom / (freedom + n_sigma**2)) - 16 * width
    highest = math.log1p(8 * width + 30 / freedom)
    logarithm = np.linspace(lowest, highest, max(_QUANTILES, math.ceil((highest - lowest) / width * 8)))
    chi_squared = n_darks * np.exp(logarithm)
    # The density of log χ², up to a factor.
    log_density = freedom / 2 * np.log(chi_squared) - chi_squared / 2
    density = np.exp(log_density - log_density.max())
    return chi_squared / n_darks, density / density.sum()


def _times(last: float) -> Float64:
    """Times of a batch in units of the pedestal's memory: from 0 to the last frame's, denser at the start."""
    return np.zeros(1) if last <= 0 else last * np.linspace(0, 1, _TIMES) ** 2


def _squared_noise(start: Float64, times: Float64, n_sigma: float, area: int) -> Float64:
    """How s²/σ² follows the frames, (time, start): in the mean, in units of the memory,

        d(s²)/dt = E[(v² − s²) where the pixel is quiet],

    quiet meaning |v| ≤ a and the area − 1 others below a as well. Where a is small that is rare, and s² stays small for
    long; at low n_sigma it comes to rest below σ².
    """
    rows, now = [start], start
    for before, after in pairwise(times):
        steps = max(1, math.ceil((after - before) / 0.05))
        step = (after - before) / steps
        for _ in range(steps):
            half = np.maximum(now + step / 2 * _growth(now, n_sigma, area), 0)
            now = np.maximum(now + step * _growth(half, n_sigma, area), 0)
        rows.append(now)
    return np.stack(rows)


def _growth(squared: Float64, n_sigma: float, area: int) -> Float64:
    a = n_sigma * np.sqrt(squared)
    below = normal_cdf(a)
    inside = 2 * below - 1
    moment = inside - 2 * a * np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    growth: Float64 = (moment - squared * inside) * below ** (area - 1)
    return growth


def _probabilities(n_present: int, area: int) -> Float64:
    """p(a) at `_THRESHOLDS`, for a pixel with `n_present` pixels in its window."""
    below = normal_cdf(_THRESHOLDS)
    by_maximum = -np.expm1(n_present * np.log(below))
    # Where Φ(a) is 1 in double precision, its complement is not 0.
    far = _THRESHOLDS > 5
    by_maximum[far] = n_present * normal_cdf(-_THRESHOLDS[far])
    by_sum = np.zeros_like(_THRESHOLDS)
    near = np.flatnonzero(_THRESHOLDS * math.sqrt(area / n_present) < _WIDEST)
    for i in near:
        by_sum[i] = _sum_above(float(_THRESHOLDS[i]), n_present, area)
    probabilities: Float64 = np.maximum((by_maximum + by_sum) / n_present, 1e-300)
    return probabilities


def _sum_above(a: float, n: int, area: int) -> float:
    """P(all of n normal values ≤ a, and their sum > √area · a)."""
    beyond = math.sqrt(area) * a
    if n * a <= beyond:
        return 0.0
    # The sum's distribution wraps around after so many widths of its own, where there is nothing left of it.
    length = 1 << math.ceil(math.log2((2 * _WIDEST * math.sqrt(n) + 2 * _WIDEST) / _STEP))
    below_a = np.arange(length) * _STEP
    density = np.where(below_a <= a + _WIDEST, np.exp(-((a - below_a) ** 2) / 2) / math.sqrt(2 * math.pi), 0.0) * _STEP
    density[0] /= 2
    summed = np.fft.irfft(np.fft.rfft(density) ** n, length)
    # Element k is the sum n·a − k·step: those above are the first ones, the last of them in part.
    last = (n * a - beyond) / _STEP
    whole = math.floor(last + 0.5)
    # Farther above there is nothing.
    first = max(0, math.ceil((n * a - _WIDEST * math.sqrt(n)) / _STEP))
    indices = np.arange(first, whole + 1)
    weights = np.ones(len(indices))
    weights[-1] = last + 0.5 - whole
    return float(max((summed[indices % length] * weights).sum(), 0.0))


def normal_cdf(x: Float64) -> Float64:
    """Φ(x), the normal distribution."""
    flat = np.asarray(x, np.float64)
    values = np.fromiter((math.erfc(-v / math.sqrt(2)) for v in flat.ravel()), np.float64, flat.size)
    cdf: Float64 = (values / 2).reshape(flat.shape)
    return cdf
