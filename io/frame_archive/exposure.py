"""One simulated exposure, compiled: pedestal, Gaussian noise, shared charge, digitisation.

The noise is drawn from a counter: pixel i of a frame takes its bits from `splitmix64(key + i · golden)` (Steele,
Lea & Flood, "Fast splittable pseudorandom number generators", 2014). A normal variate is the inverse of the normal
distribution, interpolated in a table of equally probable intervals; the two outermost intervals, beyond 4.01σ, are
drawn exactly by Marsaglia's tail method. That takes a quarter of the time of NumPy's `standard_normal`, which was most
of the simulation's.
"""

import math
import threading
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from finder.stored_code import stored_njit

_INDEX_BITS = 14
_FRACTION_BITS = 32 - _INDEX_BITS
_INTERVALS = 1 << _INDEX_BITS
_FRACTION_MASK = (1 << _FRACTION_BITS) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFFFFFF)
# A cloud is integrated to this many sigmas; what is left out is less than 10⁻⁶ of its charge.
_CLOUD_SIGMAS = 5.0

Plane = npt.NDArray[np.float32]


def expose(
    key: int,
    pedestal: Plane,
    noise: Plane,
    gain: Plane,
    photons: tuple[Plane, Plane, Plane],
    cloud_sigma: float,
    adc_max: int,
    frame: npt.NDArray[np.uint16],
) -> None:
    """Fill `frame`, (y, x), in ADU.

    Args:
        key: 64 random bits, of which all noise of the frame is made.
        pedestal: (y, x) ADU.
        noise: (y, x) ADU, the standard deviation.
        gain: (y, x) ADU/keV.
        photons: x, y (pixels, centres at integers) and deposited energy (keV) of each photon.
        cloud_sigma: of each photon's charge cloud, in pixels.
        adc_max: where the converter's range ends, ADU.
        frame: (y, x), written.
    """
    analog = _scratch.plane(frame.shape)
    _expose(np.uint64(key), pedestal, noise, gain, *photons, cloud_sigma, np.float32(adc_max), _normal(), analog, frame)


class _Scratch(threading.local):
    """One thread's analog plane: on Dask's workers the page faults of fresh memory cost as much as the exposure."""

    def __init__(self) -> None:
        self._plane: Plane = np.empty((0, 0), np.float32)

    def plane(self, shape: tuple[int, ...]) -> Plane:
        if self._plane.shape != shape:
            self._plane = np.empty(shape, np.float32)
        return self._plane


_scratch = _Scratch()


@cache
def _normal() -> Plane:
    """Return the bounds of equally probable intervals of the normal distribution; the outermost are infinite."""
    inverse = NormalDist().inv_cdf
    inner = [inverse(i / _INTERVALS) for i in range(1, _INTERVALS)]
    return np.array([-math.inf, *inner, math.inf], np.float32)


@stored_njit
def _expose(
    key: Any,
    pedestal: Any,
    noise: Any,
    gain: Any,
    photon_x: Any,
    photon_y: Any,
    energy: Any,
    cloud_sigma: Any,
    adc_max: Any,
    normal: Any,
    analog: Any,
    frame: Any,
) -> None:
    _add_noise(key, normal, pedestal, noise, analog)
    _add_photons(photon_x, photon_y, energy, cloud_sigma, gain, analog)
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            frame[y, x] = np.uint16(min(max(np.rint(analog[y, x]), np.float32(0)), adc_max))


@stored_njit
def _bits(counter: Any) -> Any:
    counter = (counter ^ (counter >> np.uint64(30))) * _MIX_1
    counter = (counter ^ (counter >> np.uint64(27))) * _MIX_2
    return counter ^ (counter >> np.uint64(31))


@stored_njit
def _add_noise(key: Any, normal: Any, pedestal: Any, noise: Any, analog: Any) -> None:
    counter, rare = key, ~key
    bits = np.uint64(0)
    use_high_half = False
    for y in range(analog.shape[0]):
        for x in range(analog.shape[1]):
            # 64 bits make the noise of two pixels.
            if use_high_half:
                half = np.int64(bits >> np.uint64(32))
            else:
                counter += _GOLDEN
                bits = _bits(counter)
                half = np.int64(bits & _LOW_32)
            use_high_half = not use_high_half
            interval = half >> _FRACTION_BITS
            if 0 < interval < _INTERVALS - 1:
                low, high = normal[interval], normal[interval + 1]
                width = np.float32(half & _FRACTION_MASK) * np.float32(1 / (1 << _FRACTION_BITS))
                value = low + width * (high - low)
            else:
                rare, value = _tail(rare, normal[_INTERVALS - 1])
                value = value if interval else -value
            analog[y, x] = pedestal[y, x] + noise[y, x] * value


@stored_njit
def _tail(counter: Any, start: Any) -> Any:
    """Draw from the normal distribution beyond `start` (G. Marsaglia, Technometrics 6, 1964)."""
    while True:
        counter += _GOLDEN
        bits = _bits(counter)
        first = (np.float64(bits >> np.uint64(32)) + 0.5) / 4294967296.0
        second = (np.float64(bits & _LOW_32) + 0.5) / 4294967296.0
        beyond = -math.log(first) / start
        if -2.0 * math.log(second) > beyond * beyond:
            return counter, np.float32(start + beyond)


@stored_njit
def _add_photons(photon_x: Any, photon_y: Any, energy: Any, sigma: Any, gain: Any, analog: Any) -> None:
    """Share each photon's charge among the pixels that its cloud reaches."""
    rows, columns = analog.shape
    extent = _CLOUD_SIGMAS * sigma
    scale = 1.0 / (math.sqrt(2.0) * sigma)
    share_x = np.empty(math.ceil(2.0 * extent) + 2)
    for photon in range(energy.size):
        at_x, at_y = np.float64(photon_x[photon]), np.float64(photon_y[photon])
        first_x = max(0, math.ceil(at_x - extent - 0.5))
        stop_x = min(columns, math.floor(at_x + extent + 0.5) + 1)
        first_y = max(0, math.ceil(at_y - extent - 0.5))
        stop_y = min(rows, math.floor(at_y + extent + 0.5) + 1)
        for x in range(first_x, stop_x):
            share_x[x - first_x] = _fraction(x - at_x, extent, scale)
        for y in range(first_y, stop_y):
            share = energy[photon] * _fraction(y - at_y, extent, scale)
            for x in range(first_x, stop_x):
                analog[y, x] += gain[y, x] * share * share_x[x - first_x]


@stored_njit
def _fraction(centre: Any, extent: Any, scale: Any) -> Any:
    """Integrate a unit Gaussian at 0 over the pixel of width 1 at `centre`."""
    above = math.erf((centre + 0.5) * scale) if centre + 0.5 < extent else 1.0
    below = math.erf((centre - 0.5) * scale) if centre - 0.5 > -extent else -1.0
    return 0.5 * (above - below)
