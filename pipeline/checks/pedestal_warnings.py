"""What a user is warned of after a run: a pedestal that did not fit, frames that jump, pixels that misbehave."""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from finder.common_movement import FRAMES_LOOKED_AT, CommonMovement
from finder.offset import Offset, offset_by_chance
from pipeline.batches.count_table import column
from pipeline.batches.reports import BatchCount
from pipeline.preparation import PreparedRun

# More pixels than this being off is not a matter of bad pixels.
SHARE_OF_BAD_PIXELS = 0.02
# More clusters than this being made by hot pixels spoils a spectrum.
SHARE_OF_FALSE_CLUSTERS = 0.01
# When more pixels than this seldom learn, it is not a matter of a beam's brightest spot.
SHARE_STARVED = 0.5
FRAMES_TO_JUDGE_BY = 64
RECENTRE = 128
"""As the study in docs/pedestal.md has it: more frames gain little, fewer make the pixels uneven."""


class StalePedestalWarning(UserWarning):
    """The pedestal does not fit the frames: clusters are lost or made up."""


class CommonModeWarning(UserWarning):
    """Pixels move together from frame to frame: the noise is not each pixel's own."""


class BadPixelsWarning(UserWarning):
    """Pixels make clusters by themselves."""


def warn_of_pedestal(counts: Sequence[BatchCount], prepared: PreparedRun, n_pixels: int) -> None:
    """Warn of what the batches showed, each with the remedy.

    Args:
        counts: The batches.
        prepared: The run.
        n_pixels: Pixels that count.
    """
    # Pixels that a pedestal far off keeps from updating are its consequence, and told with it.
    again = _again(counts, prepared)
    if not _warn_of_offset(counts, prepared, n_pixels, again):
        _warn_of_starved_pixels(counts, prepared)
    _warn_of_common_mode(counts, prepared, again)
    _warn_of_hot_pixels(counts, prepared)


def _again(counts: Sequence[BatchCount], prepared: PreparedRun) -> str:
    """How to run again: in place, or with this dataset's mask of hot pixels, which must then stay."""
    if not _share_of_hot_pixels(counts) > SHARE_OF_FALSE_CLUSTERS:
        return "--overwrite"
    return f"{_mask(prepared)} and another --out"


def _mask(prepared: PreparedRun) -> str:
    return f"--mask {shlex.quote(f'{prepared.out}/pedestal')}"


def _share_of_hot_pixels(counts: Sequence[BatchCount]) -> float:
    """The share of all clusters whose centre is a hot pixel."""
    of_hot, total = column(counts, "health.clusters_of_hot").sum(), column(counts, "n_clusters").sum()
    return float(of_hot / max(total, 1))


def _warn_of_offset(counts: Sequence[BatchCount], prepared: PreparedRun, n_pixels: int, again: str) -> bool:
    # The window's sum is off by area · offset, and its threshold is n_sigma · √area noise widths.
    tolerable = Offset(_tolerable(prepared), SHARE_OF_BAD_PIXELS)

    def is_stale(count: BatchCount) -> bool:
        chance = offset_by_chance(count.batch.n_frames, n_pixels)
        return (
            abs(count.offset.median) > tolerable.median + chance.median
            or count.offset.pixels_off > tolerable.pixels_off + chance.pixels_off
        )

    n_stale, worst = _worst((abs(count.offset.median), count) for count in counts if is_stale(count))
    if worst is None:
        return False
    # Frames that jump together are off by something else each time: moving X0 does not follow them.
    kind = None if prepared.options.parameters.common_mode is not None else _common_mode(worst, prepared)
    if kind is not None:
        remedy = f"its {kind[1]}s jump from frame to frame: give --common-mode {kind[0]}"
    elif prepared.options.recentre:
        remedy = "give newer darks with --pedestal, or smaller batches with --batch-size"
    else:
        remedy = (
            f"run again with --recentre {RECENTRE} {again}, which moves the pedestal to each batch's first frames, "
            "or give newer darks with --pedestal, or --pedestal first:N"
        )
    warnings.warn(
        f"the pedestal ({prepared.pedestal}) does not fit {n_stale} of {len(counts)} batches; in the worst, "
        f"{worst.batch}, the median pixel is {worst.offset.median:+.2f} noise widths off and "
        f"{worst.offset.pixels_off:.1%} of all are off by more than one: clusters are lost or made up there; {remedy}",
        StalePedestalWarning,
        stacklevel=4,
    )
    return True


def _warn_of_starved_pixels(counts: Sequence[BatchCount], prepared: PreparedRun) -> None:
    n_starved, worst = _worst(
        (count.health.seldom_updated, count)
        for count in counts
        if count.batch.n_frames >= FRAMES_TO_JUDGE_BY and count.health.seldom_updated > SHARE_STARVED
    )
    if worst is not None:
        warnings.warn(
            f"in {n_starved} of {len(counts)} batches, most of all {worst.batch}, {worst.health.seldom_updated:.0%} "
            "of the pixels were updated in fewer than half of the frames: either the pedestal was lost within the "
            f"batch, which smaller ones cure (--batch-size 500 --recentre {RECENTRE}), or photons cover most of the "
            "frame, which a smaller window cures (--cluster-size 3x3)",
            StalePedestalWarning,
            stacklevel=4,
        )


def _warn_of_common_mode(counts: Sequence[BatchCount], prepared: PreparedRun, again: str) -> None:
    if prepared.options.parameters.common_mode is not None:
        return
    n_found, worst = _worst((kind[2], count) for count in counts if (kind := _common_mode(count, prepared)) is not None)
    if worst is not None and 2 * n_found > len(counts):
        kind = _common_mode(worst, prepared)
        assert kind is not None
        option, what, widths = kind
        smaller = "; if it is its readout chips that move each by itself, with their tile" if what == "frame" else ""
        warnings.warn(
            f"the pixels of a {what} move together from frame to frame, by {widths:.2f} noise widths in {worst.batch}: "
            f"clusters are lost or made up; run again with --common-mode {option} {again}{smaller}",
            CommonModeWarning,
            stacklevel=4,
        )


def _common_mode(count: BatchCount, prepared: PreparedRun) -> tuple[str, str, float] | None:
    """What moves together in a batch by more than is tolerable: the option's value, what it is called, how far."""
    rows, columns = prepared.archive.frame_shape
    common: CommonMovement = count.health.common
    groups = (
        (f"tile:{rows}x{columns}", "frame", common.frame, rows * columns),
        ("row", "row", common.row, columns),
        ("column", "column", common.column, rows),
    )
    far = [
        (option, what, widths)
        for option, what, widths, n_pixels in groups
        # Means of few pixels scatter by 1/√n; what is independent adds in squares.
        if widths > math.hypot(_tolerable(prepared), 3 / math.sqrt(n_pixels))
        and n_pixels >= FRAMES_TO_JUDGE_BY
        and count.batch.n_frames >= FRAMES_LOOKED_AT
    ]
    return max(far, key=lambda group: group[2], default=None)


def _warn_of_hot_pixels(counts: Sequence[BatchCount], prepared: PreparedRun) -> None:
    share = _share_of_hot_pixels(counts)
    if share > SHARE_OF_FALSE_CLUSTERS:
        most = column(counts, "health.hot").max()
        warnings.warn(
            f"{most} pixel{'s fire' if most != 1 else ' fires'} in more than 1 % of the frames and unlike "
            f"{'their' if most != 1 else 'its'} neighbours, and made {share:.1%} of the clusters: leave "
            f"{'them' if most != 1 else 'it'} out with {_mask(prepared)} in a run with another --out",
            BadPixelsWarning,
            stacklevel=4,
        )


def _worst(found: Iterable[tuple[float, BatchCount]]) -> tuple[int, BatchCount | None]:
    """How many there are, and that with the largest value; no other is kept, for there may be a million."""
    n, largest, worst = 0, math.nan, None
    for value, count in found:
        n += 1
        if worst is None or value > largest:
            largest, worst = value, count
    return n, worst


def _tolerable(prepared: PreparedRun) -> float:
    return 1 / math.sqrt(float(np.prod(prepared.options.parameters.cluster_size)))
