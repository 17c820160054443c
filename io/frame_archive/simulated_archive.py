"""Archives of simulated frames, written in parts by any number of processes.

A part is a run of whole chunks. What a part holds depends on the detector and its place only, so that the same archive
results, byte for byte, whoever writes which part when.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from frame_archive.creation import create_archive
from frame_archive.disturbances import GAIN_BITS
from frame_archive.simulation import K_ALPHA_KEV, K_BETA_KEV, Frame, Photons, SimulatedDetector
from frame_archive.writer import ArchiveWriter

_FRAMES_PER_PART = 100
_CONVENTION = "pixel centres are at integers: pixel (row y, column x) covers [x - 0.5, x + 0.5) x [y - 0.5, y + 0.5)"


@dataclass(frozen=True)
class Part:
    """Frames [start, stop) of a simulated archive, to be made and written together.

    Attributes:
        kind: "frames" or "dark".
        start: the first; where a chunk starts.
        stop: one past the last; where a chunk, or the array, ends.
    """

    kind: Literal["frames", "dark"]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class SimulatedArchive:
    """A simulated archive being written: small, and the same on every worker.

    Attributes:
        writer: of the archive.
        detector: what is simulated.
        n_frames: how many frames there will be.
        n_dark: how many darks.
        frames_per_chunk: frames in a stored chunk.
    """

    writer: ArchiveWriter
    detector: SimulatedDetector
    n_frames: int
    n_dark: int
    frames_per_chunk: int

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        detector: SimulatedDetector,
        n_frames: int,
        n_dark: int = 1000,
        frames_per_chunk: int = 20,
        overwrite: bool = False,
    ) -> "SimulatedArchive":
        """Make the archive with all its arrays; frames, darks and photons are still to be written.

        The group `truth` holds what each pixel is like, `pedestal`, `noise` and `gain` (y, x), and what fell where:
        `n_photons` (frame) and `x`, `y`, `energy_keV` (frame, photon), NaN after the frame's last photon. Of a
        disturbance it holds what there is: how far all pedestals have moved, `moved` (frame); `common_mode`
        (frame, tile_y, tile_x); and where pixels have changed, `changed_pixels` (y, x).

        Raises:
            ArchiveError: something is at `path` already, or it cannot be written.
            ValueError: a number does not make sense.
        """
        maps = detector.maps
        writer = create_archive(
            path,
            (n_frames, *detector.shape),
            np.uint16,
            n_dark=n_dark,
            attrs={
                "title": "Simulated frames of a photon-counting pixel detector",
                "photon_energies_keV": [K_ALPHA_KEV, K_BETA_KEV],
                "saturation_value": detector.adc_max,
                "simulation": detector.as_dict(),
                **({"gain_bits": GAIN_BITS} if detector.disturbance.switched else {}),
            },
            pixel_mask=maps.mask,
            frames_per_chunk=frames_per_chunk,
            overwrite=overwrite,
        )
        archive = cls(writer, detector, n_frames, n_dark, frames_per_chunk)
        archive._add_truth()
        return archive

    def _add_truth(self) -> None:
        maps, rows = self.detector.maps, self._frames_per_part
        self.writer.add_group("truth", {"convention": _CONVENTION})
        for name, values, units in (
            ("pedestal", maps.pedestal, "ADU"),
            ("noise", maps.noise, "ADU"),
            ("gain", maps.gain, "ADU/keV"),
        ):
            self.writer.add_array(
                f"truth/{name}", values.shape, values.dtype, values.shape, ("y", "x"), {"units": units}
            )
            self.writer.write(f"truth/{name}", 0, values)
        self.writer.add_array("truth/n_photons", (self.n_frames,), np.uint32, (rows,), ("frame",))
        for name, units in (("x", "pixel"), ("y", "pixel"), ("energy_keV", "keV")):
            width = self.detector.max_photons
            attrs = {"units": units, **({"convention": _CONVENTION} if units == "pixel" else {})}
            self.writer.add_array(
                f"truth/{name}",
                (self.n_frames, width),
                np.float32,
                (rows, width),
                ("frame", "photon"),
                attrs,
                fill_value=np.nan,
            )
        self._add_truth_of_disturbance()

    def _add_truth_of_disturbance(self) -> None:
        detector, rows = self.detector, self._frames_per_part
        disturbance = detector.disturbance
        if disturbance.step or disturbance.sinusoid:
            attrs = {"units": "noise widths", "long_name": "how far all pedestals have moved since the darks"}
            self.writer.add_array("truth/moved", (self.n_frames,), np.float64, (rows,), ("frame",), attrs)
        if disturbance.common_mode_rms:
            tiles = detector.common_mode(0).shape
            attrs = {"units": "ADU", "long_name": f"common mode of each {disturbance.common_mode}"}
            dims = ("frame", "tile_y", "tile_x")
            self.writer.add_array("truth/common_mode", (self.n_frames, *tiles), np.float32, (rows, *tiles), dims, attrs)
        if disturbance.has_changed_pixels:
            mask = detector.changed_pixels.mask(detector.shape)
            attrs = {"long_name": "NeXus bits: 3 (over-responding) hot, 4 (noisy) blinking; no mask knows of them"}
            self.writer.add_array("truth/changed_pixels", mask.shape, mask.dtype, mask.shape, ("y", "x"), attrs)
            self.writer.write("truth/changed_pixels", 0, mask)

    @property
    def _frames_per_part(self) -> int:
        return self.frames_per_chunk * max(1, _FRAMES_PER_PART // self.frames_per_chunk)

    def parts(self) -> Iterator[Part]:
        """Yield the parts that make up the archive: the darks, then the frames."""
        kinds: tuple[tuple[Literal["frames", "dark"], int], ...] = (("dark", self.n_dark), ("frames", self.n_frames))
        for kind, length in kinds:
            for start in range(0, length, self._frames_per_part):
                yield Part(kind, start, min(start + self._frames_per_part, length))

    def write(self, part: Part) -> int:
        """Make and write one part; return how many frames it has.

        Raises:
            ArchiveError: the file system refuses.
        """
        if part.kind == "dark":
            self._write_chunks(part, lambda frame, out: self.detector.dark_frame(frame, out))
            return len(part)
        photons = _PhotonTable(part, self.detector.max_photons)

        def make(frame: int, out: Frame) -> None:
            _, photons[frame] = self.detector.frame(frame, self.n_frames, out)

        self._write_chunks(part, make)
        for name, values in photons.columns.items():
            self.writer.write(f"truth/{name}", part.start, values)
        self._write_disturbance(part)
        return len(part)

    def _write_disturbance(self, part: Part) -> None:
        detector, frames = self.detector, range(part.start, part.stop)
        if detector.disturbance.step or detector.disturbance.sinusoid:
            moved = np.array([detector.moved(frame, self.n_frames) for frame in frames])
            self.writer.write("truth/moved", part.start, moved)
        if detector.disturbance.common_mode_rms:
            common = np.stack([detector.common_mode(frame) for frame in frames])
            self.writer.write("truth/common_mode", part.start, common)

    def _write_chunks(self, part: Part, make: Callable[[int, Frame], object]) -> None:
        # Chunk by chunk in one buffer, so that memory does not grow with the part.
        chunk = np.empty((self.frames_per_chunk, *self.detector.shape), np.uint16)
        for start in range(part.start, part.stop, self.frames_per_chunk):
            stop = min(start + self.frames_per_chunk, part.stop)
            for frame in range(start, stop):
                make(frame, chunk[frame - start])
            self.writer.write(part.kind, start, chunk[: stop - start])


class _PhotonTable:
    """The truth of one part, a row a frame."""

    def __init__(self, part: Part, width: int) -> None:
        self._start = part.start
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.full((len(part), width), np.nan, np.float32) for name in ("x", "y", "energy_keV")
        }
        self.columns["n_photons"] = np.zeros(len(part), np.uint32)

    def __setitem__(self, frame: int, photons: Photons) -> None:
        row, count = frame - self._start, len(photons)
        self.columns["n_photons"][row] = count
        for name in ("x", "y", "energy_keV"):
            self.columns[name][row, :count] = getattr(photons, name)
