"""Simulated frames of a photon-counting pixel detector, with the truth of every photon.

Each pixel has its own pedestal, noise and gain. Photons of two lines fall anywhere on the sensor; each makes a round
Gaussian cloud of charge that the pixels share. The sum is digitised: rounded to whole ADU and cut off at the end of
the converter's range.

Every frame has a random generator of its own, derived from the seed and the frame's position, so that frames can be
made anywhere in any order. Pixel (row y, column x) covers [x − ½, x + ½) × [y − ½, y + ½): centres are at integers.
"""

import math
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from finder.pixel_bits import PixelBits
from frame_archive.disturbances import HOT, VALUE_BITS, ChangedPixels, Disturbance
from frame_archive.exposure import expose

K_ALPHA_KEV = 8.048
K_BETA_KEV = 8.905
DEAD = int(PixelBits.DEAD)

# Photons a pixel and frame that give about 2 400 clusters of 3×3 a frame of 400×400 at 5σ: some share a cluster.
_DEFAULT_PHOTONS_PER_PIXEL = 2_590 / 160_000
_DEFAULT_BAD_PIXELS_PER_PIXEL = 1e-4
_PAIR_ENERGY_KEV = 3.62e-3
_FANO_FACTOR = 0.115
_LIGHT, _DARK, _DETECTOR = 0, 1, 2

Frame = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Photons:
    """The photons of one frame.

    Attributes:
        x, y: (photon) where they fell, in pixels, float32.
        energy_keV: (photon) their energy, float32.
    """

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.float32]
    energy_keV: npt.NDArray[np.float32]  # noqa: N815 (the unit's own spelling)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class SimulatedDetector:
    """A detector and its beam; the defaults are like a Mönch prototype under copper fluorescence.

    Attributes:
        shape: pixels, (y, x).
        photons_per_frame: mean number of photons; None gives 2 590 on 400×400 and the same density elsewhere.
        seed: of everything random.
        gain: mean conversion, ADU/keV; 100 puts Cu Kα at 805 ADU.
        noise: mean noise of a pixel, keV.
        drift: how far the pedestal moves over the run, linearly, in noise widths.
        bad_pixels: how many are dead or hot, half each; None gives 16 on 400×400 and the same density elsewhere.
        pedestal: mean pedestal, ADU.
        pedestal_spread: standard deviation of the pixels' pedestals, ADU.
        noise_spread: relative standard deviation of the pixels' noise.
        gain_spread: relative standard deviation of the pixels' gain.
        cloud_sigma: of the charge cloud, pixels. At 0.3 a 3×3 window keeps more than 99.9 % of any photon.
        k_beta_fraction: of the photons, the share that is Kβ.
        adc_max: the end of the converter's range, ADU.
        disturbance: what else moves the pedestal: a step, a swing, a common mode, hot and blinking pixels.
    """

    shape: tuple[int, int] = (400, 400)
    photons_per_frame: float | None = None
    seed: int = 0
    gain: float = 100.0
    noise: float = 0.18
    drift: float = 0.0
    bad_pixels: int | None = None
    pedestal: float = 4_600.0
    pedestal_spread: float = 120.0
    noise_spread: float = 0.05
    gain_spread: float = 0.01
    cloud_sigma: float = 0.3
    k_beta_fraction: float = 0.12
    adc_max: int = 16_383
    disturbance: Disturbance = field(default_factory=Disturbance)

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or not all(1 <= side <= 1 << 16 for side in self.shape):
            raise ValueError(f"a detector has 1 to 65536 rows and columns, not {self.shape}")
        if self.photons_per_frame is not None and not 0 <= self.photons_per_frame <= 1e9:
            raise ValueError(f"photons_per_frame is at least 0, not {self.photons_per_frame}")
        if self.bad_pixels is not None and not 0 <= self.bad_pixels <= self.n_pixels:
            raise ValueError(f"bad_pixels is 0 to the {self.n_pixels} pixels there are, not {self.bad_pixels}")
        changed, good = (
            self.disturbance.hot_pixels + self.disturbance.blinking_pixels,
            self.n_pixels - self.n_bad_pixels,
        )
        if changed > good:
            raise ValueError(f"{changed} hot and blinking pixels do not fit on {good} good ones")
        if self.seed < 0:
            raise ValueError(f"the seed is at least 0, not {self.seed}")
        for name in ("gain", "cloud_sigma"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is above 0, not {getattr(self, name)}")
        for name in ("noise", "pedestal_spread", "noise_spread", "gain_spread"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is at least 0, not {getattr(self, name)}")
        if not math.isfinite(self.drift) or not math.isfinite(self.pedestal):
            raise ValueError(f"drift ({self.drift}) and pedestal ({self.pedestal}) are finite numbers")
        if not 0 <= self.k_beta_fraction <= 1:
            raise ValueError(f"k_beta_fraction is 0 to 1, not {self.k_beta_fraction}")
        if not 1 <= self.adc_max <= np.iinfo(np.uint16).max:
            raise ValueError(f"adc_max is 1 to 65535, not {self.adc_max}")
        if self.disturbance.switched and self.adc_max >= 1 << VALUE_BITS:
            raise ValueError(
                f"an adc_max of {self.adc_max} leaves no room for gain bits: at most {(1 << VALUE_BITS) - 1}"
            )

    @property
    def n_pixels(self) -> int:
        """Pixels of the detector."""
        return self.shape[0] * self.shape[1]

    @property
    def mean_photons(self) -> float:
        """Mean number of photons a frame."""
        if self.photons_per_frame is not None:
            return self.photons_per_frame
        return _DEFAULT_PHOTONS_PER_PIXEL * self.n_pixels

    @property
    def max_photons(self) -> int:
        """The most photons a frame may have: so far above the mean that no run gets there."""
        return math.ceil(self.mean_photons + 8 * math.sqrt(self.mean_photons) + 8)

    @property
    def n_bad_pixels(self) -> int:
        """How many pixels are dead or hot."""
        return round(_DEFAULT_BAD_PIXELS_PER_PIXEL * self.n_pixels) if self.bad_pixels is None else self.bad_pixels

    @property
    def maps(self) -> "PixelMaps":
        """What each pixel is like."""
        return _maps_of(self)

    @property
    def changed_pixels(self) -> ChangedPixels:
        """The pixels that are hot or blink, and are not in the mask."""
        return _changed_pixels_of(self)

    def as_dict(self) -> dict[str, Any]:
        """All parameters as plain values; the disturbance only where there is one."""
        values = asdict(self)
        if self.disturbance == Disturbance():
            del values["disturbance"]
        return values

    def moved(self, frame: int, n_frames: int) -> float:
        """How far all pedestals have moved at frame number `frame` of `n_frames`, in noise widths."""
        return self.drift * frame / n_frames + self.disturbance.widths(frame)

    def common_mode(self, frame: int, dark: bool = False) -> npt.NDArray[np.float32]:
        """The common mode of a frame or dark frame, ADU, (rows of tiles, columns of tiles)."""
        return self.disturbance.common_mode_of(self.seed, _DARK if dark else _LIGHT, frame, self.shape)

    def photons(self, frame: int) -> Photons:
        """Return the photons of frame number `frame`."""
        return self._photons(self._generator(_LIGHT, frame))

    def frame(self, frame: int, n_frames: int, out: Frame | None = None) -> tuple[Frame, Photons]:
        """Return frame number `frame` of `n_frames`, (y, x) in ADU, written into `out` if given, and its photons."""
        generator = self._generator(_LIGHT, frame)
        photons = self._photons(generator)
        # The spread of the number of electron-hole pairs that a photon makes.
        spread = np.sqrt(_FANO_FACTOR * _PAIR_ENERGY_KEV * photons.energy_keV)
        charge = photons.energy_keV + spread * generator.standard_normal(len(photons), np.float32)
        pedestal = self._pedestal_at(frame, n_frames)
        exposed = self._exposed(generator, pedestal, photons, charge.astype(np.float32), out)
        if self.disturbance.switched:
            self.disturbance.switch(self.seed, frame, exposed)
        return exposed, photons

    def dark_frame(self, frame: int, out: Frame | None = None) -> Frame:
        """Return dark frame number `frame`, (y, x) in ADU, written into `out` if given: nothing moved, and no photons.

        Photons only where the disturbance has them fall on the darks.
        """
        nothing = np.empty(0, np.float32)
        pedestal = self.maps.pedestal
        if self.disturbance.common_mode_rms:
            pedestal = pedestal + self.disturbance.spread_over(self.common_mode(frame, dark=True), self.shape)
        generator, photons = self._generator(_DARK, frame), Photons(nothing, nothing, nothing)
        if self.disturbance.dark_photons:
            photons = self._photons(generator, int(generator.poisson(self.disturbance.dark_photons)))
        return self._exposed(generator, pedestal, photons, photons.energy_keV, out)

    def _pedestal_at(self, frame: int, n_frames: int) -> npt.NDArray[np.float32]:
        maps, disturbance = self.maps, self.disturbance
        moved = self.moved(frame, n_frames)
        pedestal = maps.pedestal + np.float32(moved) * maps.noise if moved else maps.pedestal
        if disturbance.common_mode_rms:
            pedestal = pedestal + disturbance.spread_over(self.common_mode(frame), self.shape)
        if disturbance.has_changed_pixels:
            changed = self.changed_pixels
            pedestal = pedestal.copy()
            pedestal.flat[changed.pixel] += changed.levels(frame) * maps.noise.flat[changed.pixel]
        return pedestal

    def _photons(self, generator: np.random.Generator, count: int | None = None) -> Photons:
        if count is None:
            count = min(int(generator.poisson(self.mean_photons)), self.max_photons)
        rows, columns = self.shape
        x = generator.random(count, np.float32) * np.float32(columns) - np.float32(0.5)
        y = generator.random(count, np.float32) * np.float32(rows) - np.float32(0.5)
        is_beta = generator.random(count, np.float32) < self.k_beta_fraction
        return Photons(x, y, np.where(is_beta, np.float32(K_BETA_KEV), np.float32(K_ALPHA_KEV)))

    def _exposed(
        self,
        generator: np.random.Generator,
        pedestal: npt.NDArray[np.float32],
        photons: Photons,
        charge: npt.NDArray[np.float32],
        out: Frame | None,
    ) -> Frame:
        maps = self.maps
        key = int(generator.integers(1 << 64, dtype=np.uint64))
        frame = np.empty(self.shape, np.uint16) if out is None else out
        arriving = (photons.x, photons.y, charge)
        expose(key, pedestal, maps.noise, maps.gain, arriving, self.cloud_sigma, self.adc_max, frame)
        return frame

    def _generator(self, stream: int, frame: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=(stream, frame))))


@dataclass(frozen=True)
class PixelMaps:
    """What each pixel of a simulated detector is like, each (y, x).

    Attributes:
        pedestal: mean dark signal, ADU, float32.
        noise: standard deviation of the dark signal, ADU, float32.
        gain: ADU/keV, float32; 0 where the pixel is dead.
        mask: NeXus bits, uint32: bit 1 dead, bit 3 hot (over-responding).
    """

    pedestal: npt.NDArray[np.float32]
    noise: npt.NDArray[np.float32]
    gain: npt.NDArray[np.float32]
    mask: npt.NDArray[np.uint32]

    @staticmethod
    def of(detector: SimulatedDetector) -> "PixelMaps":
        """Draw the maps of `detector` from its seed."""
        generator = np.random.default_rng(np.random.SeedSequence(detector.seed, spawn_key=(_DETECTOR,)))
        shape = detector.shape

        def spread(mean: float, width: float) -> npt.NDArray[np.float32]:
            return np.maximum(mean + width * generator.standard_normal(shape), 0).astype(np.float32)

        pedestal = spread(detector.pedestal, detector.pedestal_spread)
        mean_noise = detector.noise * detector.gain
        noise = spread(mean_noise, mean_noise * detector.noise_spread)
        gain = spread(detector.gain, detector.gain * detector.gain_spread)
        mask = np.zeros(shape, np.uint32)
        bad = generator.choice(detector.n_pixels, detector.n_bad_pixels, replace=False)
        dead, hot = np.unravel_index(bad[::2], shape), np.unravel_index(bad[1::2], shape)
        # A dead pixel reads 0 whatever happens; a hot one leaks, which raises its pedestal and its noise.
        mask[dead] = DEAD
        pedestal[dead] = noise[dead] = gain[dead] = 0
        mask[hot] = HOT
        pedestal[hot] += (detector.adc_max - pedestal[hot]) / 2
        noise[hot] *= 10
        return PixelMaps(pedestal, noise, gain, mask)


# Beside the detector rather than in it, so that a detector stays small when it is sent to a worker.
@lru_cache(maxsize=2)
def _maps_of(detector: SimulatedDetector) -> PixelMaps:
    return PixelMaps.of(detector)


@lru_cache(maxsize=2)
def _changed_pixels_of(detector: SimulatedDetector) -> ChangedPixels:
    return ChangedPixels.of(detector.disturbance, detector.seed, detector.maps.mask == 0)
