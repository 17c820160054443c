"""The bits of a pixel mask, as NeXus defines them (base class NXdetector, field `pixel_mask`).

Any of the low 16 bits set means that a pixel is not to be used.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any

MASKED_BITS = 0xFFFF


class PixelBits(IntFlag):
    """What is wrong with a pixel."""

    GAP = 1 << 0
    DEAD = 1 << 1
    UNDER_RESPONDING = 1 << 2
    OVER_RESPONDING = 1 << 3
    NOISY = 1 << 4
    CLUSTER_OF_PROBLEMS = 1 << 6
    USER_DEFINED = 1 << 8


def mask_attributes(bits: PixelBits) -> dict[str, Any]:
    """CF attributes that say what the bits of a stored mask mean, of those that it may have."""
    kinds = list(bits)
    return {
        "flag_masks": [int(bit) for bit in kinds],
        "flag_meanings": " ".join(str(bit.name).lower() for bit in kinds),
    }
