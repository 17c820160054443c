"""Where a spectrum is highest: a quick fit to the top of its highest peak, from which other fits begin."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# So many clusters under the smoothing window make the highest point a peak and not a fluctuation.
_CLUSTERS_FOR_A_TOP = 400
_ROUNDS = 8
_NEWTON_STEPS = 25


@dataclass(frozen=True)
class Peak:
    """A Gaussian fitted to the top of a peak.

    Attributes:
        position: The centre, in the units of the spectrum's energy: ADU, or keV after `calibrated`.
        position_error: Its statistical standard error.
        sigma: The standard deviation of the top; wide where the peak stands on a shelf of shared charge: there
            ``fit_line`` gives the photons' own.
        height: Clusters a bin at the centre.
    """

    position: float
    position_error: float
    sigma: float
    height: float


def find_top(energy: npt.NDArray[np.float64], counts: npt.NDArray[np.float64], reach: float = 1.2) -> Peak:
    """Fit a Gaussian to the top of the highest peak.

    The logarithm of a Gaussian is a parabola; its coefficients are those of greatest likelihood for Poisson counts, so
    that bins of few or no clusters count for what they are. First over what stands above half the height around the
    top, then again over `reach` standard deviations around the centre found, until the bins stay the same: shared
    charge makes a tail to the left of a photon peak that must not pull at it.

    Args:
        energy: The centres of equal bins.
        counts: The clusters in each.
        reach: How far the fit goes from the centre, in standard deviations.

    Raises:
        ValueError: No peak there: fewer than three filled bins around the top, or no maximum between its sides.
    """
    if len(energy) < 3 or counts.max() <= 0:
        raise ValueError(
            "There is no peak to fit: fewer than three bins, or no clusters in them; give another range, or more bins."
        )
    bins = _top(counts)
    fit = None
    for _ in range(_ROUNDS):
        fit = _fit(energy[bins], counts[bins])
        near = np.flatnonzero(np.abs(energy - fit.position) <= max(reach * fit.sigma, 1.5 * (energy[1] - energy[0])))
        if len(near) < 3 or np.array_equal(near, bins):
            break
        bins = near
    assert fit is not None
    if not energy[0] <= fit.position <= energy[-1]:
        raise ValueError(
            f"There is no peak between {energy[0]:g} and {energy[-1]:g}: the counts rise to one side; "
            "give another range, or wider bins where there are few clusters."
        )
    return fit


def rough_top(energy: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> Peak:
    """As :func:`find_top`; where counts are too few for it, what a look at the spectrum tells, with no error.

    Raises:
        ValueError: Fewer than three bins, no clusters in them, or counts that rise to one end.
    """
    try:
        return find_top(energy, counts)
    except ValueError:
        if len(energy) < 3 or counts.max() <= 0:
            raise
        bins = _top(counts)
        if bins[0] == 0 or bins[-1] == len(counts) - 1:
            raise
    width = energy[1] - energy[0]
    inside = float(counts[bins].sum())
    middle = float((counts[bins] * energy[bins]).sum() / inside)
    # A Gaussian above half of its height is 2.36 sigma wide, and 0.81 times its height on average.
    return Peak(middle, float("nan"), float(len(bins) * width / 2.36), inside / len(bins) / 0.81)


def _top(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """The bins around the highest one that stand above half of it, at least three; smoothed no more than needed."""
    smooth, width = counts, 1
    while smooth.max() * width < _CLUSTERS_FOR_A_TOP and 2 * width + 1 <= len(counts) // 8:
        width = 2 * width + 1
        smooth = np.convolve(counts, np.full(width, 1 / width), mode="same")
    top = int(np.argmax(smooth))
    low = np.flatnonzero(smooth[:top] < smooth[top] / 2)
    high = np.flatnonzero(smooth[top:] < smooth[top] / 2)
    first = int(low[-1]) + 1 if len(low) else 0
    last = top + int(high[0]) - 1 if len(high) else len(counts) - 1
    return np.arange(max(0, min(first, top - 1)), min(len(counts), max(last, top + 1) + 1))


def _fit(energy: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> Peak:
    """Maximum likelihood of Poisson counts whose logarithm is a parabola, by iteratively reweighted least squares."""
    if (counts > 0).sum() < 3:
        raise ValueError(
            "There is no peak to fit: fewer than three bins around the top hold clusters; give wider bins."
        )
    middle, scale = (energy[0] + energy[-1]) / 2, (energy[-1] - energy[0]) / 2
    u = (energy - middle) / scale
    design = np.stack([np.ones_like(u), u, u * u], axis=1)
    expected = counts + 0.5
    for _ in range(_NEWTON_STEPS):
        normal = design.T @ (design * expected[:, None])
        working = np.log(expected) + (counts - expected) / expected
        parabola = np.linalg.solve(normal, design.T @ (expected * working))
        previous, expected = expected, np.exp(np.clip(design @ parabola, -30, 60))
        if np.allclose(expected, previous, rtol=1e-9):
            break
    a, b, c = parabola
    if c >= 0:
        raise ValueError(
            f"There is no peak near {middle:g}: the counts have no maximum there; "
            "give another range, or wider bins where there are few clusters."
        )
    slope = np.array([0.0, -1 / (2 * c), b / (2 * c * c)])  # of the centre -b/2c by a, b, c
    return Peak(
        position=float(middle - scale * b / (2 * c)),
        position_error=float(scale * np.sqrt(slope @ np.linalg.inv(normal) @ slope)),
        sigma=float(scale * np.sqrt(-1 / (2 * c))),
        height=float(np.exp(a - b * b / (4 * c))),
    )
