"""What moves the pedestal of a simulated detector between its darks and its last frame.

All of it is a function of the seed and the frame's position, and draws from generators of its own: the same detector
without a disturbance sees the same photons under the same noise, so that two runs differ by the disturbance alone.
"""

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from finder.pixel_bits import PixelBits

HOT, BLINKING = int(PixelBits.OVER_RESPONDING), int(PixelBits.NOISY)
GAIN_BITS, VALUE_BITS = 2, 14
"""Of a detector whose pixels switch: as a Jungfrau's, 01 and 11 above the value."""

_COMMON_MODE, _CHANGED_PIXELS, _SWITCHED = 3, 4, 5
# Of hot and blinking pixels, in noise widths: above any threshold in use, below a photon and above one.
_LEVELS = (10.0, 60.0)
# A blinking pixel keeps its state for so many frames; each pixel has a time of its own in between.
_DWELL_FRAMES = (5.0, 500.0)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Plane = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Disturbance:
    """What happens to a detector beside a steady drift; by default nothing.

    Darks were taken before all of it, except for the common mode, which is the readout's and always there.

    Attributes:
        step: how far all pedestals jump at frame `step_frame`, in noise widths.
        step_frame: the first frame after the jump.
        sinusoid: amplitude of a slow swing of all pedestals, in noise widths.
        sinusoid_period: its period, frames.
        common_mode: which pixels move together from frame to frame: "row", "column", or "tile:RxC" (rows, columns).
        common_mode_rms: by how much, ADU (standard deviation).
        hot_pixels: pixels that have become hot since the darks, 10 to 60 noise widths up.
        blinking_pixels: pixels that switch between their pedestal and such a level, for 5 to 500 frames at a time.
        switched: share of the frames' values that are in another gain, 0 to 1; the darks' are all in gain 0.
        dark_photons: mean number of photons on a dark frame: of a shutter that was not closed.
    """

    step: float = 0.0
    step_frame: int = 0
    sinusoid: float = 0.0
    sinusoid_period: float = 1000.0
    common_mode: str | None = None
    common_mode_rms: float = 0.0
    hot_pixels: int = 0
    blinking_pixels: int = 0
    switched: float = 0.0
    dark_photons: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.step) or not math.isfinite(self.sinusoid):
            raise ValueError(f"step ({self.step}) and sinusoid ({self.sinusoid}) are finite numbers of noise widths")
        if self.step_frame < 0:
            raise ValueError(f"the step comes at frame 0 or later, not {self.step_frame}")
        if not 0 < self.sinusoid_period < math.inf:
            raise ValueError(f"the period of the sinusoid is above 0 frames, not {self.sinusoid_period}")
        if not 0 <= self.common_mode_rms < math.inf:
            raise ValueError(f"the common mode's r.m.s. is at least 0 ADU, not {self.common_mode_rms}")
        if self.common_mode_rms and self.common_mode is None:
            raise ValueError("a common mode needs pixels that share it: row, column or tile:RxC")
        if self.common_mode is not None:
            _tile(self.common_mode, (1, 1))
        if not 0 <= self.switched <= 1:
            raise ValueError(f"the share of values in another gain is 0 to 1, not {self.switched}")
        if not 0 <= self.dark_photons <= 1e9:
            raise ValueError(f"the photons of a dark frame are at least 0, not {self.dark_photons}")
        if min(self.hot_pixels, self.blinking_pixels) < 0:
            raise ValueError(f"hot ({self.hot_pixels}) and blinking ({self.blinking_pixels}) pixels are at least 0")

    @property
    def has_changed_pixels(self) -> bool:
        """Whether there are hot or blinking pixels."""
        return self.hot_pixels + self.blinking_pixels > 0

    def widths(self, frame: int) -> float:
        """How far all pedestals have moved at `frame`, in noise widths."""
        moved = self.step if frame >= self.step_frame else 0.0
        if self.sinusoid:
            moved += self.sinusoid * math.sin(2 * math.pi * frame / self.sinusoid_period)
        return moved

    def switch(self, seed: int, frame: int, out: npt.NDArray[np.uint16]) -> None:
        """Put pixels of a frame (y, x) into another gain: any value, and nine times in ten the bits of gain 1."""
        sequence = np.random.SeedSequence(seed, spawn_key=(_SWITCHED, frame))
        generator = np.random.Generator(np.random.SFC64(sequence))
        pixel = generator.choice(out.size, generator.binomial(out.size, self.switched), replace=False, shuffle=False)
        bits = np.where(generator.random(len(pixel)) < 0.9, 0b01 << VALUE_BITS, 0b11 << VALUE_BITS)
        out.reshape(-1)[pixel] = generator.integers(1 << VALUE_BITS, size=len(pixel)) | bits

    def common_mode_of(self, seed: int, stream: int, frame: int, shape: tuple[int, int]) -> Plane:
        """What the pixels that share a common mode have in common in a frame, ADU: a value a row, column or tile.

        Args:
            seed: of the detector.
            stream: tells frames and darks apart.
            frame: its position.
            shape: the detector's (y, x).

        Returns:
            float32 (rows of tiles, columns of tiles); a row is a tile as wide as the detector.
        """
        rows, columns = _tile(self.common_mode or "row", shape)
        tiles = (-(-shape[0] // rows), -(-shape[1] // columns))
        sequence = np.random.SeedSequence(seed, spawn_key=(_COMMON_MODE, stream, frame))
        generator = np.random.Generator(np.random.SFC64(sequence))
        return np.float32(self.common_mode_rms) * generator.standard_normal(tiles, np.float32)

    def spread_over(self, values: Plane, shape: tuple[int, int]) -> Plane:
        """A value a tile, as a plane (y, x) of the detector."""
        rows, columns = _tile(self.common_mode or "row", shape)
        return values.repeat(rows, 0).repeat(columns, 1)[: shape[0], : shape[1]]


def _tile(common_mode: str, shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the pixels that move together."""
    match common_mode:
        case "row":
            return 1, shape[1]
        case "column":
            return shape[0], 1
    found = re.fullmatch(r"tile:([1-9]\d*)[xX×]([1-9]\d*)", common_mode)
    if found is None:
        raise ValueError(f"a common mode is of row, column or tile:RxC (rows x columns), not {common_mode!r}")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class ChangedPixels:
    """Pixels that have become hot or have begun to blink since the darks; no mask knows of them.

    Attributes:
        pixel: flat positions on the detector, hot pixels first.
        bits: NeXus bits of each: hot or blinking.
        level: how far each stands up when it is up, noise widths, float32.
        dwell: frames for which a blinking pixel keeps its state; 0 for a hot one.
        key: random bits of each.
    """

    pixel: npt.NDArray[np.int64]
    bits: npt.NDArray[np.uint32]
    level: Plane
    dwell: npt.NDArray[np.int64]
    key: npt.NDArray[np.uint64]

    @staticmethod
    def of(disturbance: Disturbance, seed: int, good: npt.NDArray[np.bool_]) -> "ChangedPixels":
        """Draw them from the pixels that are `good` (y, x), of which there are enough."""
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_CHANGED_PIXELS,)))
        n = disturbance.hot_pixels + disturbance.blinking_pixels
        pixel = generator.choice(np.flatnonzero(good), n, replace=False)
        level = generator.uniform(*_LEVELS, n).astype(np.float32)
        dwell = np.exp(generator.uniform(math.log(_DWELL_FRAMES[0]), math.log(_DWELL_FRAMES[1]), n)).astype(np.int64)
        dwell[: disturbance.hot_pixels] = 0
        bits = np.where(dwell == 0, HOT, BLINKING).astype(np.uint32)
        return ChangedPixels(pixel, bits, level, dwell, generator.integers(1 << 64, size=n, dtype=np.uint64))

    def levels(self, frame: int) -> Plane:
        """How far each stands up at `frame`, noise widths."""
        period = np.uint64(frame) // np.maximum(self.dwell, 1).astype(np.uint64)
        return np.where((self.dwell == 0) | (_mixed(self.key + _GOLDEN * period) & np.uint64(1) == 1), self.level, 0)

    def mask(self, shape: tuple[int, int]) -> npt.NDArray[np.uint32]:
        """NeXus bits (y, x) of where they are."""
        mask = np.zeros(shape, np.uint32)
        mask.flat[self.pixel] = self.bits
        return mask


def _mixed(counter: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output of splitmix64 (Steele, Lea & Flood 2014)."""
    counter = (counter ^ (counter >> np.uint64(30))) * _MIX_1
    counter = (counter ^ (counter >> np.uint64(27))) * _MIX_2
    mixed: npt.NDArray[np.uint64] = counter ^ (counter >> np.uint64(31))
    return mixed
