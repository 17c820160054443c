"""Pixels that darks say too little of: they are left out of a run, which says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from finder.pedestal import FEWEST_DARKS
from finder.pixel_bits import PixelBits
from pipeline.inputs.dark_training import TrainedPedestal, Training
from pipeline.preparation import PreparedRun


def without_untrained(prepared: PreparedRun, trained: TrainedPedestal) -> PreparedRun:
    """The run with those pixels masked that have fewer than two darks to be trained on."""
    if trained.untrained is None:
        return prepared
    bits = np.where(trained.untrained, np.uint32(PixelBits.DEAD), np.uint32(0))
    return replace(prepared, pixel_mask=bits if prepared.pixel_mask is None else prepared.pixel_mask | bits)


def notices_of_darks(trained: TrainedPedestal, training: Training) -> list[str]:
    """What a user should know of values and pixels that were left out, a sentence each."""
    left_out = trained.left_out
    if left_out is None:
        return []
    notices: list[str] = []
    of = f"of {left_out.n_values:,} values of the darks"
    if training.clip is not None:
        share = left_out.clipped / max(left_out.n_values, 1)
        notices.append(
            f"{left_out.clipped:,} {of} ({share:.3%}) lie more than {training.clip:g} noise widths from their pixel's "
            "mean and were left out"
        )
    if left_out.switched:
        notices.append(f"{left_out.switched:,} {of} are in another gain and were left out")
    if trained.untrained is not None:
        untrained = trained.untrained if training.masked is None else trained.untrained & ~training.masked
        if n := int(untrained.sum()):
            are = "pixels have" if n > 1 else "pixel has"
            notices.append(f"{n:,} {are} fewer than {FEWEST_DARKS} darks left to be trained on: they are masked")
    return notices
