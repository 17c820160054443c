"""What a batch shows of its pedestal and of its pixels: whether the pedestal still fits, which pixels misbehave."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from finder import PixelActivity, often_blind, often_firing, share_seldom_updated
from finder.activity import blinking_pixels, hot_pixels
from finder.common_movement import CommonMovement
from finder.offset import Offset
from finder.pixel_bits import PixelBits

MARKS = PixelBits.UNDER_RESPONDING | PixelBits.OVER_RESPONDING | PixelBits.NOISY
"""What a pixel may be marked as."""
# A pixel that is up in nearly all frames responds too much; one that is now up and now not is noisy.
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class PedestalHealth:
    """What a batch showed; small plain values.

    Args:
        from_darks: Offset of the batch's first frames from the trained pedestal, before warm-up and recentring.
        common: What the pixels of a row, a column or the frame have in common from frame to frame.
        seldom_updated: Share of pixels that were updated in fewer than half of the frames.
        often_firing: Pixels in whose window something was above the threshold in more than 1 % of the frames.
        often_blind: Pixels that were blind in more than 1 % of the frames.
        hot: Pixels that were centres of clusters in more than 1 % of the frames, unlike their neighbours.
        clusters_of_hot: Clusters that had them as their centre.
        marked: Hot pixels, blind ones, and those of the hot that are so in nearly all frames, packed (see
            :func:`marked_pixels`).
    """

    from_darks: Offset
    common: CommonMovement
    seldom_updated: float
    often_firing: int
    often_blind: int
    hot: int
    clusters_of_hot: int
    marked: str

    @classmethod
    def of(cls, activity: PixelActivity, from_darks: Offset, common: CommonMovement) -> PedestalHealth:
        """What a batch's counts of pixels say, with what was measured before it."""
        hot, blind = hot_pixels(activity), blinking_pixels(activity)
        always = hot & (activity.centres > _NEARLY_ALL * (activity.n_frames - activity.switched))
        return cls(
            from_darks=from_darks,
            common=common,
            seldom_updated=share_seldom_updated(activity),
            often_firing=int(often_firing(activity).sum()),
            often_blind=int(often_blind(activity).sum()),
            hot=int(hot.sum()),
            clusters_of_hot=int(activity.centres[hot].sum()),
            marked=_packed(hot, blind, always),
        )

    @classmethod
    def unknown(cls) -> PedestalHealth:
        """Of a batch that was not looked at."""
        nothing = math.nan
        return cls(Offset(nothing, nothing), CommonMovement(nothing, nothing, nothing), nothing, 0, 0, 0, 0, "")


def marked_pixels(marks: Iterable[str], shape: tuple[int, int]) -> npt.NDArray[np.uint32]:
    """The pixels that misbehaved in any of the batches, as a NeXus `pixel_mask` (y, x).

    Pixels that are hot in more than nine tenths of a batch's frames have bit 3 (over-responding), other hot ones bit 4
    (noisy), and those that are far below their pedestal bit 2 (under-responding).
    """
    mask = np.zeros(shape, np.uint32)
    n_pixels = shape[0] * shape[1]
    for marked in set(marks) - {""}:
        bits = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(marked)), np.uint8), count=3 * n_pixels)
        hot, blind, always = bits.reshape(3, *shape).astype(bool)
        mask[hot & ~always] |= np.uint32(PixelBits.NOISY)
        mask[always] |= np.uint32(PixelBits.OVER_RESPONDING)
        mask[blind] |= np.uint32(PixelBits.UNDER_RESPONDING)
    return mask


def _packed(hot: npt.NDArray[np.bool_], blind: npt.NDArray[np.bool_], always: npt.NDArray[np.bool_]) -> str:
    """Text, because a report is kept in a journal of text; a few bytes where a few pixels are marked."""
    if not (hot.any() or blind.any()):
        return ""
    return base64.b64encode(zlib.compress(np.packbits(np.stack([hot, blind, always])).tobytes())).decode()
