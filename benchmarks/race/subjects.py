"""What is searched: simulated frames, always the same, in shared memory where other processes reach them too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import Pedestal
from frame_archive.simulation import SimulatedDetector

SEED = 3
MOENCH = SimulatedDetector(seed=SEED)
# Photons of 80 ADU on a pedestal of 60, as 8 bits hold them.
EIGHT_BITS = replace(MOENCH, pedestal=60.0, pedestal_spread=3.0, gain=10.0, adc_max=255, bad_pixels=0)


@dataclass(frozen=True)
class Subject:
    """Frames in a file, and the pedestal to begin with.

    Attributes:
        frames: the file, NPY, (frame, y, x).
        dark: the darks the pedestal was trained on, likewise; None where it is that of the simulation.
        pedestal: trained.
    """

    frames: Path
    dark: Path | None
    pedestal: Pedestal

    def load(self) -> npt.NDArray[Any]:
        """The frames, mapped into memory: the same pages for all processes."""
        loaded: npt.NDArray[Any] = np.load(self.frames, mmap_mode="r")
        return loaded


def simulated(folder: Path, name: str, detector: SimulatedDetector, n_frames: int, n_dark: int = 0) -> Subject:
    """Frames of a detector, and darks of it if the peer needs them.

    Args:
        folder: where the files go: /dev/shm, say.
        name: of the files.
        detector: what is simulated.
        n_frames: frames.
        n_dark: darks to train on; 0 takes the simulation's own pedestal and noise.
    """
    frames, dark = folder / f"{name}.npy", folder / f"{name}.dark.npy"
    _write(frames, n_frames, detector, lambda number, out: detector.frame(number, n_frames, out))
    maps = detector.maps
    if n_dark:
        _write(dark, n_dark, detector, lambda number, out: detector.dark_frame(number, out))
        return Subject(frames, dark, Pedestal.from_dark(np.load(dark, mmap_mode="r"), n_samples=1000))
    return Subject(frames, None, Pedestal.from_mean_and_noise(maps.pedestal, maps.noise, n_samples=1000))


def cast(folder: Path, name: str, subject: Subject, dtype: npt.DTypeLike) -> Subject:
    """The same frames in another integer type."""
    frames = folder / f"{name}.npy"
    np.save(frames, subject.load().astype(dtype))
    return Subject(frames, None, subject.pedestal)


def a_mask(shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """One pixel in a hundred, a dead column and a gap of two rows: bool (y, x), True where masked."""
    rng = np.random.default_rng(SEED)
    mask: npt.NDArray[np.bool_] = rng.random(shape) < 0.01
    mask[:, shape[1] // 3] = True
    mask[shape[0] // 2 : shape[0] // 2 + 2] = True
    return mask


def _write(path: Path, n: int, detector: SimulatedDetector, draw: Any) -> None:
    file = np.lib.format.open_memmap(path, "w+", np.uint16, (n, *detector.shape))
    for number in range(n):
        draw(number, file[number])
    file.flush()
