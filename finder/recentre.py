"""Recentring: a pedestal moved to where a batch's first frames are, without training it anew."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.common_mode import CommonMode
from finder.common_mode_correction import CommonModeCorrection
from finder.frames import checked_frames
from finder.gain_bits import in_another_gain
from finder.pedestal import Pedestal
from finder.pixel_mask import masked_pixels

CLIP = 2.0
ROUNDS = 3
LARGEST_REACH = np.float32(2.0**40)  # Beyond any difference of two values; it leaves room for their sums.


def recentred(
    pedestal: Pedestal,
    frames: ArrayLike,
    pixel_mask: ArrayLike | None = None,
    *,
    common_mode: CommonMode | None = None,
    gain_bits: int = 0,
    clip: float = CLIP,
    rounds: int = ROUNDS,
) -> Pedestal:
    """`pedestal` with X0 moved to the centre of the frames' values; s1 and s2, and with them the noise, stay.

    A pixel's centre is an integer c: at first the lower median of its values X in the frames; then, `rounds` times,
    c = floor(mean + ½) of the values with |X − c| ≤ floor(clip · noise), which leaves out photons. X0 becomes
    c − floor(r + ½) with r = s1 / n_samples: X0's distance from the mean, in whole ADU, stays out of it, so that the
    mean is c to within half an ADU (a freshly trained pedestal has |r| ≤ ½, so X0 becomes c itself).

    All is exact: integers, apart from clip · noise and s1 / n_samples, which are one float32 product each. With a
    common mode the values are those that it leaves, X − c_group, with c_group from X − X0 of the pedestal given.

    Args:
        pedestal: where to start from; it is untouched.
        frames: the first frames of a batch (frame, y, x); of none, the pedestal stays as it is.
        pixel_mask: (y, x) integers, NeXus bits; or bool, True = masked: such pixels keep their X0.
        common_mode: what moves together, as the finder's parameters have it.
        gain_bits: likewise: values in another gain are none of the pixel's, and a pixel without any keeps its X0.
        clip: values this many noise widths from the centre, or nearer, make the next centre.
        rounds: how often the centre is made anew.

    Raises:
        TypeError: the frames are not integers of a supported type.
        ValueError: the frames or the mask have another shape than the pedestal, or `clip` or `rounds` is negative.
    """
    from finder.recentre_kernel import centres, centres_among  # late, as in finder.stored_code

    if not (clip >= 0 and rounds >= 0):
        raise ValueError(f"clip is {clip!r} and rounds is {rounds!r}: both are 0 or more")
    values: NDArray[Any] = checked_frames(frames, pedestal.shape)
    if len(values) == 0:
        return pedestal
    switched = in_another_gain(values, gain_bits) if gain_bits else None
    masked = None if pixel_mask is None else masked_pixels(pixel_mask, pedestal.shape)
    if common_mode is not None:
        correction = CommonModeCorrection(common_mode, pedestal.x0, masked, gain_bits)
        values = correction.corrected(values)
    reach = np.minimum(np.floor(np.float32(clip) * pedestal.noise), LARGEST_REACH).astype(np.int64)
    centre = centres(values, reach, rounds)
    never = None
    if switched is not None and (affected := switched.any(0)).any():
        centre[affected] = centres_among(values[:, affected], ~switched[:, affected], reach[affected], rounds)
        never = switched.all(0)
    if common_mode is not None:
        centre += pedestal.x0
    moved = pedestal.s1 * (np.float32(1) / np.float32(pedestal.n_samples))
    x0 = centre - np.floor(moved.astype(np.float64) + 0.5).astype(np.int64)
    for left_alone in (masked, never):
        if left_alone is not None:
            x0[left_alone] = pedestal.x0[left_alone]
    return Pedestal(x0, pedestal.s1, pedestal.s2, pedestal.trained_variance, pedestal.n_samples)


def plain_centre(values: NDArray[np.integer[Any]], reach: int, rounds: int = ROUNDS) -> int:
    """The centre of one pixel's values: the plain reference, in integers without end.

    Args:
        values: (frame), at least one.
        reach: floor(clip · noise), ADU.
        rounds: how often the centre is made anew.
    """
    ordered = sorted(int(value) for value in values)
    centre = ordered[(len(ordered) - 1) // 2]
    for _ in range(rounds):
        near = [value for value in ordered if abs(value - centre) <= reach]
        # floor(mean + 1/2); some value is always near: the mean of values lies no further from one than they reach.
        centre = (2 * sum(near) + len(near)) // (2 * len(near))
    return centre
