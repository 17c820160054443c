"""Compiled: how many clusters a peak puts into each bin, and the fit of such peaks to the spectra of many pixels.

A peak has eight parameters, in this order:

    0 counts       clusters in its Gaussian with its tail
    1 position     centre of the Gaussian, ADU
    2 sigma        its standard deviation, ADU
    3 background   clusters per ADU everywhere
    4 step         clusters on the shelf that shared charge makes from 0 to the peak, per cluster of the peak
    5 tail         of the peak's clusters, the share that lost charge exponentially
    6 tail_length  mean loss of these, ADU
    7 ratio        clusters of the second line per cluster of the first

With z = (E - position)/sigma, φ and Φ the normal density and distribution, and t = tail_length/sigma, a line's clusters
per ADU are

    counts · ( (1 - tail) φ(z)/sigma  +  tail exp(z/t + 1/2t²) Φ(-z - 1/t)/tail_length  +  step Φ(-z)/position )

(Campbell and Maxwell, Nucl. Instrum. Methods B 129 (1997) 297, call this Gaussian, tail and step a Hypermet function.)
A second line of the same shape stands at `second` times the position. The integral over each bin is exact.

All in one module: what Numba stores of a function is renewed when the function's own file changes, and only then.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from finder.stored_code import OPTIONS, stored_njit

PARAMETERS = ("counts", "position", "sigma", "background", "step", "tail", "tail_length", "ratio")
COUNTS, POSITION, SIGMA, BACKGROUND, STEP, TAIL, TAIL_LENGTH, RATIO = range(8)
CONVERGED, NOT_CONVERGED = 0, 1

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

_MAX_STEPS = 400
_NEAR_ENOUGH = 1e-6  # twice the log-likelihood still to gain: a thousandth of a standard error
_MOST_DAMPING = 1e12
_TINY = 1e-12
_NO_EFFECT = 1e-6


def _part(function: Callable[..., Any]) -> Any:
    """A function that only compiled code calls: nothing is compiled for calling it from Python."""
    options = {**OPTIONS, "no_cpython_wrapper": True}
    return njit(**options)(function)


@_part
def _lost_charge(z: float, t: float) -> float:
    """exp(z/t + 1/2t²) Φ(-z - 1/t), without overflow."""
    a = z + 1 / t
    if a < 20:
        return math.exp(0.5 * (a - z) * (a + z)) * 0.5 * math.erfc(a * math.sqrt(0.5))
    b = 1 / (a * a)
    return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / a * (1 - b * (1 - b * (3 - 15 * b)))


@_part
def _add_line(edge: float, p: Floats, place: float, weight: float, cumulative: Floats) -> float:
    """Add a line's clusters below `edge` to `cumulative[8]` and its slopes to `cumulative[0:8]`; return the former."""
    counts, position, sigma = p[COUNTS] * weight, p[POSITION] * place, p[SIGMA]
    z = (edge - position) / sigma
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    beyond = 0.5 * math.erfc(z * math.sqrt(0.5))
    tail, step = p[TAIL], p[STEP]
    below = 1 - beyond
    slope = density
    lost = lost_slope = 0.0
    if p[TAIL_LENGTH] > 0:
        t = p[TAIL_LENGTH] / sigma
        lost = _lost_charge(z, t)
        lost_slope = density / (t * t) - lost * (z / (t * t) + 1 / (t * t * t))
        below += tail * lost
        slope += tail * (lost / t - density)
        cumulative[TAIL] += counts * lost
        cumulative[TAIL_LENGTH] += counts * tail * lost_slope / sigma
        cumulative[SIGMA] -= counts * tail * lost_slope * t / sigma
    shelf = 0.0
    if position > 0:
        shelf = sigma / position * (z * beyond - density)
        below += step * shelf
        slope += step * sigma / position * beyond
        cumulative[STEP] += counts * shelf
        cumulative[SIGMA] += counts * step * shelf / sigma
        cumulative[POSITION] -= counts * step * shelf / position * place
    cumulative[COUNTS] += weight * below
    cumulative[POSITION] -= counts * slope / sigma * place
    cumulative[SIGMA] -= counts * slope * z / sigma
    cumulative[8] += counts * below
    of_one: float = p[COUNTS] * below
    return of_one


@_part
def _expect(edges: Floats, p: Floats, second: float, expected: Floats, slopes: Floats) -> None:
    """Fill `expected` (bin) and its `slopes` (parameter, bin); `second` is 0 where there is one line only."""
    cumulative = np.empty((2, 9))
    for i in range(len(edges)):
        now, before = cumulative[i % 2], cumulative[(i + 1) % 2]
        for k in range(9):
            now[k] = 0
        for line in range(2 if second > 0 else 1):
            of_one = _add_line(edges[i], p, second if line else 1.0, p[RATIO] if line else 1.0, now)
            if line:
                now[RATIO] = of_one
        now[BACKGROUND] = edges[i]
        now[8] += p[BACKGROUND] * edges[i]
        if i > 0:
            expected[i - 1] = max(now[8] - before[8], _TINY)
            for k in range(8):
                slopes[k, i - 1] = now[k] - before[k]


@_part
def _deviance(counts: Floats, expected: Floats) -> float:
    """Twice the log-likelihood that Poisson counts lack to those of a perfect model."""
    total = 0.0
    for i in range(len(counts)):
        total += expected[i] - counts[i]
        if counts[i] > 0:
            total += counts[i] * math.log(counts[i] / expected[i])
    return 2 * total


@_part
def _factorise(matrix: Floats, k: int) -> bool:
    """Cholesky, in the lower triangle; False where the matrix is not positive definite."""
    for i in range(k):
        diagonal = matrix[i, i]
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= matrix[i, m] * matrix[j, m]
            if i == j:
                if not total > 1e-13 * diagonal:
                    return False
                matrix[i, i] = math.sqrt(total)
            else:
                matrix[i, j] = total / matrix[j, j]
    return True


@_part
def _solve(factor: Floats, k: int, right: Floats) -> None:
    for i in range(k):
        for m in range(i):
            right[i] -= factor[i, m] * right[m]
        right[i] /= factor[i, i]
    for i in range(k - 1, -1, -1):
        for m in range(i + 1, k):
            right[i] -= factor[m, i] * right[m]
        right[i] /= factor[i, i]


@_part
def _choose_moving(
    p: Floats,
    counts: Floats,
    expected: Floats,
    slopes: Floats,
    free: Places,
    limits: Floats,
    moving: Places,
    gradient: Floats,
    information: Floats,
) -> int:
    """Fill what the next step needs of the parameters that can move, and return how many they are."""
    n = 0
    for k in free:
        g = effect = 0.0
        for i in range(len(counts)):
            g += slopes[k, i] * (counts[i] / expected[i] - 1)
            effect += slopes[k, i] * slopes[k, i] / expected[i]
        held = (p[k] <= limits[k, 0] and g <= 0) or (p[k] >= limits[k, 1] and g >= 0)
        if not held and effect * (limits[k, 1] - limits[k, 0]) ** 2 > _NO_EFFECT:
            moving[n], gradient[n], information[n, n] = k, g, effect
            n += 1
    for a in range(n):
        for b in range(a):
            total = 0.0
            for i in range(len(counts)):
                total += slopes[moving[a], i] * slopes[moving[b], i] / expected[i]
            information[a, b] = information[b, a] = total
    return n


@_part
def _fit(
    edges: Floats,
    counts: Floats,
    p: Floats,
    free: Places,
    limits: Floats,
    second: float,
    covariance: Floats,
    goodness: Floats,
    expected: Floats,
    slopes: Floats,
) -> int:
    """Improve `p` in place; its covariance is NaN for a parameter at a limit or without effect."""
    gradient, direction, trial = np.empty(8), np.empty(8), np.empty(8)
    information, factor = np.empty((8, 8)), np.empty((8, 8))
    moving = np.empty(8, np.int64)
    damping, n, status = 1e-2, 0, NOT_CONVERGED
    for k in range(8):
        trial[k] = p[k]
    for step in range(_MAX_STEPS):
        _expect(edges, trial, second, expected, slopes)
        found = _deviance(counts, expected)
        # What arithmetic rounds off must not look like a step in the wrong direction.
        if step == 0 or found <= goodness[0] + 1e-10 * (1 + goodness[0]):
            goodness[0], goodness[1] = found, 0.0
            for i in range(len(counts)):
                goodness[1] += (counts[i] - expected[i]) ** 2 / expected[i]
            for k in range(8):
                p[k] = trial[k]
            n = _choose_moving(p, counts, expected, slopes, free, limits, moving, gradient, information)
            damping = max(damping / 10, 1e-9)
        else:
            damping *= 8
        solved = False
        while not solved and damping < _MOST_DAMPING:
            for a in range(n):
                direction[a] = gradient[a]
                for b in range(n):
                    factor[a, b] = information[a, b] * (1 + damping if a == b else 1.0)
            solved = _factorise(factor, n)
            if not solved:
                damping *= 8
        if not solved:
            break
        _solve(factor, n, direction)
        gain = 0.0
        for a in range(n):
            gain += gradient[a] * direction[a]
            k = moving[a]
            trial[k] = min(max(p[k] + direction[a], limits[k, 0]), limits[k, 1])
        if gain * (1 + damping) < _NEAR_ENOUGH:
            status = CONVERGED
            break
    for j in range(8):
        for k in range(8):
            covariance[j, k] = np.nan
    if not _factorise(information, n):
        return NOT_CONVERGED
    for a in range(n):
        for b in range(n):
            direction[b] = 1.0 if a == b else 0.0
        _solve(information, n, direction)
        for b in range(n):
            covariance[moving[a], moving[b]] = direction[b]
    return status


@stored_njit
def fit_spectra(
    edges: Floats,
    spectra: Floats,
    parameters: Floats,
    free: Places,
    limits: Floats,
    second: float,
    covariance: Floats,
    goodness: Floats,
    status: Places,
) -> None:
    """Fit each of `spectra` (spectrum, bin) by greatest Poisson likelihood: Fisher's scoring, damped as Levenberg's.

    Args:
        edges: (bin + 1) ADU.
        spectra: Counts (spectrum, bin).
        parameters: (spectrum, 8) where to begin; replaced by what is found.
        free: The places of the parameters that are fitted.
        limits: (8, 2) lowest and highest values.
        second: Position of the second line over that of the first; 0 for one line.
        covariance: (spectrum, 8, 8) the inverse of Fisher's information; NaN where a parameter was not fitted, is at a
            limit, or has no effect.
        goodness: (spectrum, 2) deviance, and Pearson's chi².
        status: (spectrum) CONVERGED or NOT_CONVERGED.
    """
    expected, slopes = np.empty(len(edges) - 1), np.empty((8, len(edges) - 1))
    for i in range(len(spectra)):
        status[i] = _fit(
            edges, spectra[i], parameters[i], free, limits, second, covariance[i], goodness[i], expected, slopes
        )


@stored_njit
def expected_counts(edges: Floats, parameters: Floats, second: float) -> tuple[Floats, Floats]:
    """The clusters in each bin (bin), and their slopes by the parameters (parameter, bin)."""
    expected, slopes = np.empty(len(edges) - 1), np.empty((8, len(edges) - 1))
    _expect(edges, parameters, second, expected, slopes)
    return expected, slopes
