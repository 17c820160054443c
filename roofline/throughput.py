"""The throughput of a run: what was done, in how long, and how long each stage was busy."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StageUse:
    """What one stage of the pipeline (read, find, write) did, summed over all workers.

    Args:
        name: The stage.
        busy_seconds: Time that workers spent in it, in s: two workers busy for 1 s are 2 s.
        nbytes: Bytes that it produced or consumed, uncompressed.
    """

    name: str
    busy_seconds: float
    nbytes: int

    def __add__(self, other: StageUse) -> StageUse:
        """Both uses of the same stage together.

        Raises:
            ValueError: The other one is of another stage.
        """
        if other.name != self.name:
            raise ValueError(f"stage {self.name!r} and stage {other.name!r} don't add up")
        return StageUse(self.name, self.busy_seconds + other.busy_seconds, self.nbytes + other.nbytes)

    def microseconds_a_frame(self, frames: int) -> float:
        """Busy time of one worker for one frame, in µs; NaN without frames."""
        return self.busy_seconds / frames * 1e6 if frames else math.nan

    @property
    def bytes_a_second(self) -> float:
        """Throughput of one busy worker, in B/s; NaN for a stage that was never busy."""
        return self.nbytes / self.busy_seconds if self.busy_seconds > 0 else math.nan


@dataclass(frozen=True)
class ThroughputSummary:
    """What a finished run did.

    Args:
        frames: Frames gone through.
        clusters: Clusters found.
        batches: Batches that the frames were cut into.
        workers: Workers at the start of the run.
        seconds: From the first batch handed out to the dataset complete, in s.
        startup_seconds: Before that: starting workers, training the pedestal, in s.
        stages: The use of each stage.
        movement: Signed movement of the pedestal within a batch, in noise widths: of the batch where its size is
            largest (see ``pipeline.batches.worker.pedestal_movement``); NaN without batches.
        offset: The pedestal's offset before a batch, median over pixels, in noise widths: of the batch where its size
            is largest.
        pixels_off: Share of pixels more than one noise width off before a batch: of the batch where it is largest.
        from_darks: As `offset`, from the trained pedestal: before warm-up and recentring.
        seldom_updated: Share of pixels updated in fewer than half of a batch's frames, at most.
        often_firing: Pixels with a window above the threshold in more than 1 % of a batch's frames, at most.
        often_blind: Likewise pixels far below their pedestal.
        hot: Likewise pixels that are a cluster's centre, unlike their neighbours.
        gain_bits: Bits above the value in the detector's words; 0 where it has none.
        switched_values: Pixel values in another gain, which were absent from their frame.
        frames_lost: Frames that are not in the dataset because they could not be read or processed.
        frames_kept: Frames that an earlier run had gone through, in the dataset beside the others.
    """

    frames: int
    clusters: int
    batches: int
    workers: int
    seconds: float
    startup_seconds: float
    stages: tuple[StageUse, ...]
    movement: float
    offset: float
    pixels_off: float
    from_darks: float = math.nan
    seldom_updated: float = math.nan
    often_firing: int = 0
    often_blind: int = 0
    hot: int = 0
    gain_bits: int = 0
    switched_values: int = 0
    frames_lost: int = 0
    frames_kept: int = 0

    @property
    def frames_a_second(self) -> float:
        """Frames a second of the whole run; NaN for a run that took no time."""
        return self.frames / self.seconds if self.seconds > 0 else math.nan

    @property
    def clusters_a_frame(self) -> float:
        """Mean number of clusters in a frame; NaN without frames."""
        return self.clusters / self.frames if self.frames else math.nan

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON-able values; what is not a number is ``None``."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "stages"
        }
        values["frames_a_second"] = self.frames_a_second
        values["clusters_a_frame"] = self.clusters_a_frame
        values = {name: json_number(value) for name, value in values.items()}
        values["stages"] = {
            stage.name: {
                "busy_seconds": stage.busy_seconds,
                "nbytes": stage.nbytes,
                "microseconds_a_frame": json_number(stage.microseconds_a_frame(self.frames)),
                "bytes_a_second": json_number(stage.bytes_a_second),
            }
            for stage in self.stages
        }
        return values


def json_number(value: float) -> float | None:
    """The number, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None
