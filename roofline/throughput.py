"""The throughput of a run: what was done, in how long, and where the time went."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from roofline.accounting import Account
from roofline.advice import advice
from roofline.stage_use import json_number


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
        account: Each stage against its ceiling, and where the time went.
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
    account: Account
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
        """Frames a second of the whole run, those of skipped batches not counted; NaN for a run that took no time."""
        return self.account.frames_a_second

    @property
    def clusters_a_frame(self) -> float:
        """Mean number of clusters in a frame, those of skipped batches not counted; NaN without frames."""
        return self.clusters / self.account.frames if self.account.frames else math.nan

    @property
    def advice(self) -> str:
        """What binds the run and what would help, in one line."""
        return advice(self.account)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON-able values; what is not a number is ``None``."""
        fields = (field.name for field in dataclasses.fields(self) if field.name != "account")
        numbers = {name: getattr(self, name) for name in (*fields, "frames_a_second", "clusters_a_frame")}
        values: dict[str, Any] = {name: json_number(value) for name, value in numbers.items()}
        account = self.account.as_dict()
        return values | {"stages": account.pop("stages"), "account": account, "advice": self.advice}
